//! What is published, read once into forms that point at each other, and values held against them: what fits, as most of
//! thousands of objects does, costs no allocation and no search for a name of a schema.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::json_type::{Type, listed};
use crate::schema::{MOST_VIOLATIONS, Problem, Violation, quotes, type_of};

/// The kinds of one API version by name, each with its form.
type Kinds = BTreeMap<&'static str, Form>;

/// A place in [`Published::forms`].
#[derive(Clone, Copy, Debug)]
pub(in crate::lint) struct Form(usize);

#[derive(Debug, Default)]
pub(super) struct Published {
    /// As the server gives it, such as `v1.36.3`.
    pub(super) version: &'static str,
    /// What every object has.
    pub(super) metadata: Option<Form>,
    /// By API version.
    kinds: BTreeMap<&'static str, Kinds>,
    forms: Vec<Shape>,
}

/// What a value may be.
#[derive(Debug, Default)]
struct Shape {
    types: Types,
    /// Texts; any, if there are none.
    allowed: Vec<&'static str>,
    required: Vec<&'static str>,
    /// In order of the lengths of their names, then of the names: most steps of a search compare two numbers.
    fields: Vec<Field>,
    items: Option<Form>,
    /// Of fields with any other name.
    others: Option<Form>,
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    form: Form,
    is_required: bool,
}

/// A set of types; empty: any.
#[derive(Clone, Copy, Debug, Default)]
struct Types(u8);

/// The file.
#[derive(Deserialize)]
struct File {
    #[serde(borrow)]
    kubernetes: &'static str,
    #[serde(borrow)]
    kinds: BTreeMap<&'static str, Schema>,
    #[serde(borrow)]
    schemas: BTreeMap<&'static str, Schema>,
}

/// A schema in the file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Schema {
    #[serde(rename = "$ref", borrow)]
    reference: Option<&'static str>,
    #[serde(rename = "type")]
    types: Option<OneOrSeveral>,
    #[serde(rename = "enum", borrow)]
    allowed: Vec<&'static str>,
    #[serde(borrow)]
    required: Vec<&'static str>,
    #[serde(borrow)]
    properties: BTreeMap<&'static str, Self>,
    items: Option<Box<Self>>,
    additional_properties: Option<Box<Self>>,
    #[serde(rename = "x-kubernetes-int-or-string")]
    int_or_string: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrSeveral {
    One(Type),
    Several(Vec<Type>),
}

impl Published {
    /// Reads the file. Fails where it has a form that isn't known here.
    pub(super) fn read(text: &'static str) -> serde_json::Result<Self> {
        let file: File = serde_json::from_str(text)?;
        let names: BTreeMap<&str, Form> = file.schemas.keys().copied().zip((0..).map(Form)).collect();
        let mut linker = Linker {
            names,
            forms: Vec::new(),
        };
        linker.forms.resize_with(file.schemas.len(), Shape::default);
        for (place, schema) in file.schemas.into_values().enumerate() {
            linker.forms[place] = linker.shape(schema);
        }
        let mut kinds: BTreeMap<&str, Kinds> = BTreeMap::new();
        for (name, schema) in file.kinds {
            let (api_version, kind) = name.split_once(' ').unwrap_or_default();
            let form = linker.form(schema);
            kinds.entry(api_version).or_default().insert(kind, form);
        }
        Ok(Self {
            version: file.kubernetes,
            metadata: linker.names.get("meta.v1.ObjectMeta").copied(),
            kinds,
            forms: linker.forms,
        })
    }

    /// Returns the kinds of an API version, if there are any.
    pub(super) fn kinds(&self, api_version: &str) -> Option<&Kinds> {
        self.kinds.get(api_version)
    }

    /// Returns the form of a kind in every version of its group.
    pub(super) fn forms_of(&self, group: &str, kind: &str) -> Vec<Form> {
        let mut forms = Vec::new();
        for (api_version, kinds) in &self.kinds {
            let of = api_version.rsplit_once('/').map_or("", |(group, _)| group);
            if of == group {
                forms.extend(kinds.get(kind));
            }
        }
        forms
    }

    /// Returns the form of a field, if one is published; an error with the names of those that there are, if it is none of them.
    pub(super) fn field(&self, form: Form, name: &str) -> Result<Option<Form>, Vec<&'static str>> {
        let shape = &self.forms[form.0];
        match shape.field(name).map(|field| field.form).or(shape.others) {
            None if shape.is_closed() => Err(shape.names()),
            found => Ok(found),
        }
    }

    pub(super) fn item(&self, form: Form) -> Option<Form> {
        self.forms[form.0].items
    }

    /// Returns the types that a form takes; none: any.
    pub(super) fn types(&self, form: Form) -> Vec<Type> {
        self.forms[form.0].types.all()
    }

    pub(super) fn allowed(&self, form: Form) -> &[&'static str] {
        &self.forms[form.0].allowed
    }

    /// Returns what in a value at a place doesn't fit a form, up to [`MOST_VIOLATIONS`].
    pub(super) fn violations(&self, value: &Value, form: Form, at: Place<'_>) -> Vec<Violation> {
        let mut found = Vec::new();
        self.value(value, form, at, &mut found);
        found
    }

    /// Go takes a null, and an empty text where one of several is expected, for what isn't given.
    fn value(&self, value: &Value, form: Form, at: Place<'_>, found: &mut Vec<Violation>) {
        let shape = &self.forms[form.0];
        if value.is_null() || found.len() >= MOST_VIOLATIONS {
            return;
        }
        if !shape.types.fit(value) {
            found.push(at.has(shape.wrong_type(value)));
            return;
        }
        match value {
            Value::String(text) => found.extend(shape.wrong_text(text).map(|problem| at.has(problem))),
            Value::Array(items) => {
                let Some(form) = shape.items else { return };
                for (index, item) in items.iter().enumerate() {
                    self.value(item, form, Place::Item(&at, index), found);
                }
            }
            Value::Object(fields) => self.fields(fields, shape, at, found),
            _ => {}
        }
    }

    fn fields(&self, fields: &Map<String, Value>, shape: &Shape, at: Place<'_>, found: &mut Vec<Violation>) {
        let mut required = 0;
        for (name, value) in fields {
            let at = Place::Field(&at, name);
            let field = shape.field(name);
            required += usize::from(field.is_some_and(|field| field.is_required));
            match field.map(|field| field.form).or(shape.others) {
                Some(form) => self.value(value, form, at, found),
                None if shape.is_closed() && found.len() < MOST_VIOLATIONS => {
                    found.push(at.has(shape.unknown()));
                }
                None => {}
            }
        }
        if required < shape.required.len() {
            let missing = shape.required.iter().filter(|name| !fields.contains_key(**name));
            found.extend(missing.map(|name| Place::Field(&at, name).has(Problem::Missing)));
        }
    }
}

impl Shape {
    fn field(&self, name: &str) -> Option<&Field> {
        let order = |field: &Field| {
            field
                .name
                .len()
                .cmp(&name.len())
                .then_with(|| field.name.cmp(name))
        };
        let place = self.fields.binary_search_by(order).ok()?;
        self.fields.get(place)
    }

    /// Where no field is named, any is taken.
    const fn is_closed(&self) -> bool {
        !self.fields.is_empty()
    }

    fn unknown(&self) -> Problem {
        let names = self.names().into_iter();
        let known = names.map(str::to_owned).collect();
        Problem::Unknown { known }
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&str> = self.fields.iter().map(|field| field.name).collect();
        names.sort_unstable();
        names
    }

    fn wrong_text(&self, text: &str) -> Option<Problem> {
        let is_right = self.allowed.is_empty() || text.is_empty() || self.allowed.contains(&text);
        (!is_right).then(|| Problem::NotAllowed {
            found: text.to_owned(),
            allowed: self.allowed.iter().map(|text| (*text).to_owned()).collect(),
        })
    }

    fn wrong_type(&self, value: &Value) -> Problem {
        let expected = self.types.to_string();
        Problem::Type {
            found: type_of(value),
            hint: quotes(value, &expected),
            expected,
        }
    }
}

impl Types {
    fn of(types: &[Type]) -> Self {
        Self(types.iter().fold(0, |all, one| all | bit(*one)))
    }

    fn fit(self, value: &Value) -> bool {
        let is = match value {
            Value::Null => return true,
            Value::String(_) => bit(Type::String),
            Value::Number(number) if number.is_f64() => bit(Type::Number),
            Value::Number(_) => bit(Type::Integer) | bit(Type::Number),
            Value::Bool(_) => bit(Type::Boolean),
            Value::Array(_) => bit(Type::Array),
            Value::Object(_) => bit(Type::Object),
        };
        self.0 == 0 || self.0 & is != 0
    }

    fn all(self) -> Vec<Type> {
        let types = Type::ALL.into_iter().filter(|one| self.0 & bit(*one) != 0);
        types.collect()
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(&self.all()))
    }
}

const fn bit(one: Type) -> u8 {
    1 << one as u8
}

/// Makes forms of schemas, in which places stand for names.
struct Linker {
    names: BTreeMap<&'static str, Form>,
    forms: Vec<Shape>,
}

impl Linker {
    fn form(&mut self, schema: Schema) -> Form {
        let name = schema
            .reference
            .and_then(|reference| reference.strip_prefix("#/schemas/"));
        if let Some(form) = name.and_then(|name| self.names.get(name)) {
            return *form;
        }
        let shape = self.shape(schema);
        self.forms.push(shape);
        Form(self.forms.len() - 1)
    }

    fn shape(&mut self, schema: Schema) -> Shape {
        let types = match schema.types {
            None if schema.int_or_string => Types::of(&[Type::Integer, Type::String]),
            None => Types::default(),
            Some(OneOrSeveral::One(one)) => Types::of(&[one]),
            Some(OneOrSeveral::Several(several)) => Types::of(&several),
        };
        let properties = schema.properties.into_iter();
        let mut fields: Vec<Field> = properties
            .map(|(name, inner)| Field {
                name,
                form: self.form(inner),
                is_required: schema.required.contains(&name),
            })
            .collect();
        fields.sort_by_key(|field| (field.name.len(), field.name));
        Shape {
            types,
            allowed: schema.allowed,
            required: schema.required,
            fields,
            items: schema.items.map(|inner| self.form(*inner)),
            others: schema.additional_properties.map(|inner| self.form(*inner)),
        }
    }
}

/// Where a value is, without a text of it: that is made for what doesn't fit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn has(&self, problem: Problem) -> Violation {
        let mut pointer = String::new();
        self.write(&mut pointer);
        Violation { pointer, problem }
    }

    fn write(&self, pointer: &mut String) {
        match self {
            Self::Root => {}
            Self::Field(parent, name) => {
                parent.write(pointer);
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
            Self::Item(parent, index) => {
                parent.write(pointer);
                pointer.push_str(&format!("/{index}"));
            }
        }
    }
}

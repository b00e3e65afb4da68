//! Loose objects of a repository on this machine, looked at before libgit2 reads them: it waits without end for the rest of one
//! that breaks off, takes any amount of memory for one that says it is large, and opens pipes.

use std::fmt;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use git2::{ErrorClass, ErrorCode, Oid, Repository};
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};

/// What is larger has to be in a pack: a loose object is read as a whole.
pub(super) const LARGEST: u64 = 256 << 20;
/// The longest kind and the longest size, as they stand before the content.
const HEADER: usize = 64;
const PIECE: usize = 64 << 10;
/// Git follows no longer chains of object directories either.
const ALTERNATES: usize = 5;

/// Where the loose objects of a repository are.
#[derive(Debug)]
pub(super) struct Loose {
    places: Vec<PathBuf>,
}

impl Loose {
    pub(super) fn of(repo: &Repository) -> Self {
        Self {
            places: stores(&repo.commondir().join("objects")),
        }
    }

    /// Returns an error that names the object if reading it would take for ever, or more memory than there may be; and whether it
    /// is loose.
    pub(super) fn check(&self, id: Oid) -> Result<bool, git2::Error> {
        let name = id.to_string();
        let (folder, rest) = name.split_at(2);
        let mut is_loose = false;
        for place in &self.places {
            let file = place.join(folder).join(rest);
            if is_there(&file)? {
                look(&file).map_err(|fault| error(&format!("object {id} {fault}")))?;
                is_loose = true;
            }
        }
        Ok(is_loose)
    }
}

/// Returns an error if something is no file that libgit2 opens to find an object: a list of other stores, or a pack.
pub(super) fn check_stores(objects: &Path) -> Result<(), git2::Error> {
    for store in stores(objects) {
        is_there(&store.join("info").join("alternates"))?;
        for pack in files(&store.join("pack")) {
            is_there(&pack)?;
        }
    }
    Ok(())
}

/// Returns a store of objects and those that it names, one after the other.
fn stores(objects: &Path) -> Vec<PathBuf> {
    let mut places = vec![objects.to_owned()];
    let mut newest = 0..1;
    for _ in 0..ALTERNATES {
        let more: Vec<PathBuf> = places[newest.clone()]
            .iter()
            .flat_map(|it| alternates(it))
            .collect();
        newest = places.len()..places.len() + more.len();
        places.extend(more);
    }
    places
}

/// Removes the objects of a mirror that break off, as they do after a loss of power; says whether there were any.
pub(super) fn remove_broken(repo: &Repository) -> bool {
    let mut found = false;
    for folder in files(&repo.commondir().join("objects")) {
        let name = folder.file_name().unwrap_or_default();
        if name.len() == 2 && name != ".." {
            // Whatever can't be read this time may be read the next.
            let is_broken = |file: &PathBuf| matches!(look(file), Err(Fault::Broken(_)));
            for file in files(&folder).filter(is_broken) {
                tracing::warn!(file = %file.display(), "removes an object of the mirror that cannot be read");
                found |= fs::remove_file(&file).is_ok();
            }
        }
    }
    found
}

/// Returns an error if there is something else than a file where Git has one: a pipe is opened until somebody writes to it.
pub(super) fn is_there(file: &Path) -> Result<bool, git2::Error> {
    match fs::metadata(file) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(error(&format!("{} is not a file", file.display()))),
        // What is wrong with it is libgit2's to say.
        Err(_) => Ok(false),
    }
}

fn files(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn alternates(objects: &Path) -> Vec<PathBuf> {
    let list = objects.join("info").join("alternates");
    let text = match is_there(&list) {
        Ok(true) => fs::read_to_string(list).unwrap_or_default(),
        _ => String::new(),
    };
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| objects.join(line)).collect()
}

/// Returns whether an error is one of these, and not libgit2's.
pub(super) fn is_about_a_file(error: &git2::Error) -> bool {
    (error.code(), error.class()) == (ErrorCode::Invalid, ErrorClass::Odb)
}

fn error(why: &str) -> git2::Error {
    git2::Error::new(ErrorCode::Invalid, ErrorClass::Odb, why)
}

/// Why an object is not read.
#[derive(Debug)]
enum Fault {
    /// It is not what it says.
    Broken(String),
    Other(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(why) | Self::Other(why) => f.write_str(why),
        }
    }
}

/// Inflates an object, a piece at a time, and compares what there is with what it says of itself.
fn look(file: &Path) -> Result<(), Fault> {
    const CUT_OFF: &str = "breaks off";
    let mut file = File::open(file).map_err(|error| Fault::Other(format!("cannot be opened: {error}")))?;
    let mut state = Box::new(InflateState::new(DataFormat::Zlib));
    let (mut packed, mut plain) = (vec![0; PIECE], vec![0; PIECE]);
    let (mut header, mut said, mut found) = (Vec::new(), None, 0_u64);
    loop {
        let read = file
            .read(&mut packed)
            .map_err(|error| Fault::Other(format!("cannot be read: {error}")))?;
        let mut input = &packed[..read];
        loop {
            let step = inflate(&mut state, input, &mut plain, MZFlush::None);
            input = &input[step.bytes_consumed..];
            found += step.bytes_written as u64;
            if said.is_none() {
                header.extend(plain[..step.bytes_written].iter().take(HEADER - header.len()));
                said = whole(&header)?;
            }
            if said.is_some_and(|whole| found > whole) {
                return Err(Fault::Broken("is longer than it says".to_owned()));
            }
            match step.status {
                Ok(MZStatus::StreamEnd) if said == Some(found) => return Ok(()),
                Ok(MZStatus::StreamEnd) => return Err(Fault::Broken("is shorter than it says".to_owned())),
                // It may give out what it has kept, and take nothing in for once: what is left of the input is no less needed.
                Ok(_) if step.bytes_consumed > 0 && !input.is_empty() || step.bytes_written > 0 => {}
                Ok(_) | Err(miniz_oxide::MZError::Buf) => break,
                Err(_) => return Err(Fault::Broken("does not inflate".to_owned())),
            }
        }
        if read == 0 {
            return Err(Fault::Broken(CUT_OFF.to_owned()));
        }
    }
}

/// Returns how long an object is with its header, which says so: `blob 12` and a zero; `None` if there is more of it to come.
fn whole(header: &[u8]) -> Result<Option<u64>, Fault> {
    let Some(end) = header.iter().position(|byte| *byte == 0) else {
        return if header.len() < HEADER {
            Ok(None)
        } else {
            Err(Fault::Broken("has no header".to_owned()))
        };
    };
    let size = std::str::from_utf8(&header[..end])
        .ok()
        .and_then(|text| text.split_once(' '));
    let size = size
        .and_then(|(_, size)| size.parse::<u64>().ok())
        .ok_or_else(|| Fault::Broken("has no header".to_owned()))?;
    if size > LARGEST {
        return Err(Fault::Other(format!(
            "is larger than {LARGEST} bytes and in no pack ({size} bytes): git gc packs it"
        )));
    }
    Ok(Some(end as u64 + 1 + size))
}

#[cfg(test)]
mod tests {
    use git2::ObjectType;

    use super::*;

    fn place(repo: &Repository, id: Oid) -> PathBuf {
        let id = id.to_string();
        repo.path().join("objects").join(&id[..2]).join(&id[2..])
    }

    /// Zlib's form (RFC 1950) with one block that is stored as it is.
    fn deflated(plain: &[u8]) -> Vec<u8> {
        let length = u16::try_from(plain.len()).unwrap();
        let (mut low, mut high) = (1_u32, 0_u32);
        for byte in plain {
            low = (low + u32::from(*byte)) % 65_521;
            high = (high + low) % 65_521;
        }
        let head = [0x78, 0x01, 0x01];
        let [length, rest] = [length, !length].map(u16::to_le_bytes);
        [
            &head[..],
            &length,
            &rest,
            plain,
            &(high << 16 | low).to_be_bytes(),
        ]
        .concat()
    }

    #[test]
    fn an_object_is_sound_at_its_whole_length_and_at_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(directory.path()).unwrap();
        for length in [0, 1, 60, 70, 1_000, 200_000] {
            let bytes: Vec<u8> = (0..length)
                .map(|place: u32| place.wrapping_mul(place).to_le_bytes()[1])
                .collect();
            let id = repo.odb().unwrap().write(ObjectType::Blob, &bytes).unwrap();
            let loose = Loose::of(&repo);
            assert!(loose.check(id).unwrap());
            let place = place(&repo, id);
            let whole = fs::read(&place).unwrap();
            fs::remove_file(&place).unwrap();
            assert!(
                !loose.check(id).unwrap(),
                "what is not there is for libgit2 to say"
            );
            for cut in (0..whole.len()).step_by(1 + whole.len() / 50) {
                fs::write(&place, &whole[..cut]).unwrap();
                let error = loose.check(id).unwrap_err();
                assert!(error.message().contains(&id.to_string()), "{error}");
                fs::remove_file(&place).unwrap();
            }
        }
    }

    /// However well it is packed: pieces of what is read and of what is written end anywhere in it.
    #[test]
    fn a_long_object_is_sound_whatever_is_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(directory.path()).unwrap();
        let mut random = 1_u32;
        let mut next = move || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            random >> 24
        };
        let lines: String = (0..200_000)
            .map(|number| format!("  k{number:06}: v{}\n", number % 10))
            .collect();
        let mut contents = vec![lines.into_bytes()];
        for kinds in [1, 2, 3, 5, 16, 60, 256] {
            contents.push(
                (0..1_000_000)
                    .map(|_| (next() % kinds).to_le_bytes()[0])
                    .collect(),
            );
        }
        for content in contents {
            let id = repo.odb().unwrap().write(ObjectType::Blob, &content).unwrap();
            assert!(Loose::of(&repo).check(id).unwrap());
        }
    }

    #[test]
    fn an_object_says_how_long_it_is() {
        for (plain, why) in [
            (b"blob 3\0abcd".as_slice(), "is longer than it says"),
            (b"blob 5\0abcd", "is shorter than it says"),
            (b"blob 5", "is shorter than it says"),
            (b"blob x\0abcd", "has no header"),
            (&[b'x'; 100], "has no header"),
            (
                b"blob 1099511627776\0a",
                "is larger than 268435456 bytes and in no pack (1099511627776 bytes): git gc packs it",
            ),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), deflated(plain)).unwrap();
            assert_eq!(
                look(file.path()).map_err(|fault| fault.to_string()),
                Err(why.to_owned())
            );
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), deflated(b"blob 4\0abcd")).unwrap();
        look(file.path()).unwrap();
    }

    #[test]
    fn objects_of_other_repositories_are_looked_at_too() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let repo = Repository::init_bare(one.path()).unwrap();
        let there = Repository::init_bare(other.path()).unwrap();
        let id = there.blob(b"text").unwrap();
        let list = format!("# of it\n{}\n", other.path().join("objects").display());
        fs::create_dir_all(one.path().join("objects/info")).unwrap();
        fs::write(one.path().join("objects/info/alternates"), list).unwrap();
        assert!(Loose::of(&repo).check(id).unwrap());
        let place = place(&there, id);
        fs::remove_file(&place).unwrap();
        fs::write(place, b"x").unwrap();
        Loose::of(&repo).check(id).unwrap_err();
    }

    #[test]
    fn a_pipe_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(directory.path()).unwrap();
        let id = Oid::from_str(&"3".repeat(40)).unwrap();
        let place = place(&repo, id);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&place).status().unwrap();
        assert!(made.success());
        let error = Loose::of(&repo).check(id).unwrap_err();
        assert!(error.message().ends_with("is not a file"), "{error}");
    }

    #[test]
    fn what_broke_off_in_the_mirror_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(directory.path()).unwrap();
        let (good, bad) = (repo.blob(b"good").unwrap(), repo.blob(b"bad").unwrap());
        assert!(!remove_broken(&repo));
        let broken = place(&repo, bad);
        fs::remove_file(&broken).unwrap();
        fs::write(&broken, b"").unwrap();
        assert!(remove_broken(&repo));
        assert!(place(&repo, good).exists() && !broken.exists());
    }
}

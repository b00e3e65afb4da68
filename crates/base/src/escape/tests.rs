use super::markdown::{code, fenced, html, label, task, text};
use super::*;

fn has_hidden(text: &str) -> bool {
    text.chars().any(is_hidden)
}

#[test]
fn nothing_hidden_passes_anywhere() {
    for (what, name) in HOSTILE {
        for (form, safe) in [
            ("visible", visible(name)),
            ("line", line(name)),
            ("prose", prose(name)),
            ("Markdown", text(name)),
            ("code", code(name)),
            ("html", html(name)),
            ("label", label(name)),
            ("task", task(name)),
            ("data", workflow::data(name)),
            ("property", workflow::property(name)),
            ("log", log_line(name).trim_end().to_owned()),
            (
                "JSON",
                json(&format!("{{\"name\":\"{}\"}}", name.replace('\n', ""))),
            ),
        ] {
            let safe = if form == "JSON" {
                safe.replace('\r', "")
            } else {
                safe
            };
            assert!(!has_hidden(&safe), "{what} as {form}: {safe:?}");
        }
        let shown = terminal(name);
        assert!(!has_hidden(&shown.replace('\n', "")), "{what}: {shown:?}");
        assert!(!shown.contains("\n::"), "{what}: {shown:?}");
        assert!(shown.contains('\\'), "{what} is invisible: {shown:?}");
    }
    assert_eq!(visible("żółć 東京 ⚠️ ↩️ é"), "żółć 東京 ⚠️ ↩️ é");
}

#[test]
fn our_own_styles_and_lines_stay() {
    use anstyle::{AnsiColor, Style};
    for style in [
        AnsiColor::Red.on_default().bold(),
        AnsiColor::BrightBlue.on_default(),
        Style::new().bold().underline(),
        Style::new().dimmed(),
    ] {
        let text = format!("{style}a{style:#}\n\tb\n");
        assert_eq!(terminal(&text), text);
        assert_eq!(styled_line(text.trim_end()), format!("{style}a{style:#}\\n\tb"));
    }
    for forged in [
        "\u{1b}[8m",
        "\u{1b}[1;31m",
        "\u{1b}[m",
        "\u{1b}[38m",
        "\u{1b}[3m",
        "\u{1b}[",
        "\u{1b}",
    ] {
        assert!(!terminal(forged).contains('\u{1b}'), "{forged:?}");
        assert!(!styled_line(forged).contains('\u{1b}'), "{forged:?}");
    }
}

#[test]
fn no_line_is_a_command_to_a_runner() {
    for (line, shown) in [
        ("::error::x", r":\u{3a}error::x"),
        ("a\n \u{a0}::add-mask::x", "a\n \u{a0}:\\u{3a}add-mask::x"),
        (
            "\u{1b}[1m:\u{1b}[0m:error::x",
            "\u{1b}[1m:\u{1b}[0m\\u{3a}error::x",
        ),
        ("a ##[error]x", r"a ##\u{5b}error]x"),
        ("a ##VSO[task.setvariable]x", r"a ##VSO\u{5b}task.setvariable]x"),
        ("#\u{1b}[1m#[error]x", "#\u{1b}[1m#\\u{5b}error]x"),
        ("a::b: [c] # [d]", "a::b: [c] # [d]"),
    ] {
        assert_eq!(terminal(line), shown);
    }
    assert_eq!(
        log_line("WARN ##[error]x\n::error::y\n"),
        "WARN ##\\u{5b}error]x\\n::error::y\n"
    );
    assert_eq!(json(r###"{"a":"##[error]"}"###), r###"{"a":"##\u005berror]"}"###);
}

#[test]
fn json_means_the_same() {
    let value = serde_json::json!({"name": HOSTILE.iter().map(|(_, name)| *name).collect::<Vec<_>>()});
    let safe = json(&serde_json::to_string_pretty(&value).unwrap());
    assert!(!has_hidden(&safe.replace('\n', "")), "{safe:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap(), value);
}

#[test]
fn commands_cannot_be_broken_out_of() {
    assert_eq!(workflow::data("100%\nhint: a\rb"), "100%25%0Ahint: a\\rb");
    assert_eq!(
        workflow::property("a,b:c\n::error::x"),
        "a%2Cb%3Ac\\n%3A%3Aerror%3A%3Ax"
    );
}

#[test]
fn markdown_stays_plain_text() {
    for (words, plain) in [
        ("[a](https://evil.example)", r"\[a\](https\://evil.example)"),
        ("![a](//evil.example)", r"!\[a\](//evil.example)"),
        ("s3://savepoints/a", "s3://savepoints/a"),
        ("see WWW.evil.example", r"see WWW\.evil.example"),
        (
            "<img src=x onerror=y>&amp;",
            "&lt;img src=x onerror=y&gt;&amp;amp;",
        ),
        ("@org/team a@b.example", "@&#8203;org/team a@&#8203;b.example"),
        (
            "a | b `c` *d* _e_ ~f~ $g$",
            r"a \| b \`c\` \*d\* \_e\_ \~f\~ \$g\$",
        ),
        ("# title #12", r"\# title \#&#8203;12"),
        ("- item", r"\- item"),
        ("12) item", r"12\) item"),
        ("a\n\n# b", r"a \# b"),
        (r"\u{1b}", r"\\u{1b}"),
    ] {
        assert_eq!(text(words), plain);
    }
    assert_eq!(code("a`b|c\nd"), r"`a'b\|c\nd`");
    assert_eq!(code(r"a\|b"), r"`a\\u{7c}b`");
    assert_eq!(code(""), "` `");
    assert_eq!(html("</summary>\n\n@org"), r"&lt;/summary&gt;\n\n@&#8203;org");
    assert_eq!(
        fenced("diff", "+ a\n```\n\u{2028}# b\n"),
        "````diff\n+ a\n```\n\\u{2028}# b\n````\n"
    );
    assert_eq!(label("a\"]\nclick"), r"a#34;]#92;nclick");
    assert_eq!(task("a: b"), "a#58; b");
}

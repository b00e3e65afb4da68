//! What the tests of whoever shows texts of others try.

/// What nobody may forge with, and where: a name for each.
pub const HOSTILE: &[(&str, &str)] = &[
    ("clear screen", "pa\u{1b}[2J\u{1b}[H"),
    ("conceal", "pa\u{1b}[8mhidden"),
    ("many styles", "pa\u{1b}[1;31mred"),
    ("window title", "pa\u{1b}]0;title\u{7}"),
    (
        "hyperlink",
        "\u{1b}]8;;https://evil.example\u{1b}\\click\u{1b}]8;;\u{1b}\\",
    ),
    ("C1 CSI", "pa\u{9b}2J"),
    ("next line", "pa\u{85}::error::x"),
    ("delete", "pa\u{7f}\u{8}\u{8}"),
    ("null", "pa\0"),
    ("line break", "pa\n::error::forged"),
    ("carriage return", "pa\r::error::forged"),
    ("line separator", "pa\u{2028}::error::forged\u{2029}"),
    ("override", "pa\u{202e}lmay"),
    ("isolate", "pa\u{2066}x\u{2069}"),
    ("marks", "pa\u{200e}\u{200f}\u{61c}"),
    ("zero width", "p\u{200b}a\u{200d}\u{2060}\u{feff}"),
    ("tags", "pa\u{e0041}\u{e0042}"),
    ("selectors", "pa\u{fe00}\u{e0100}"),
];

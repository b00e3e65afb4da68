//! Lines of a given width: wrapped between words, under where their text begins; tables; what fits a screen.

use anstyle::Style;
use textwrap::core::display_width;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm, wrap};

use super::super::told::styled;
use cutover_base::escape::styled_line;

/// A line of text.
#[derive(Clone, Debug)]
pub struct Line {
    text: String,
    /// How far what doesn't fit is indented.
    hang: usize,
    /// It is to be copied as it is: a command. A terminal breaks it without a line break.
    whole: bool,
}

impl Line {
    /// Returns a line whose continuation stands two columns further in than it begins.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let hang = indent(&text) + 2;
        Self {
            text,
            hang,
            whole: false,
        }
    }

    /// Lets the continuation stand below a column.
    pub fn hanging(self, hang: usize) -> Self {
        Self { hang, ..self }
    }

    /// Keeps it in one piece.
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

fn indent(text: &str) -> usize {
    text.len() - text.trim_start_matches(' ').len()
}

/// Returns a line as it is printed, without a line break at its end. Whatever it quotes, it forges no other line.
pub fn laid_out(line: &Line, width: Option<usize>) -> String {
    let text = styled_line(&line.text);
    let Some(width) = width.filter(|width| !line.whole && display_width(&text) > *width) else {
        return text;
    };
    // On a narrow terminal what is indented far would have no room left.
    let begin = " ".repeat(indent(&text));
    let hang = if width < line.hang + ROOM {
        begin.len().min(width / 4) + 4
    } else {
        line.hang
    };
    let hang = " ".repeat(hang);
    let options = Options::new(width)
        .initial_indent(&begin)
        .subsequent_indent(&hang)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    wrap(text.trim_start_matches(' '), options).join("\n")
}

/// How much room what continues below itself needs, or else it continues further to the left.
const ROOM: usize = 20;
/// How much room the last column of a table needs.
const LAST: usize = 12;

/// Returns rows as lines with two spaces between the columns. The last column is not filled up, and continues below itself. Where the
/// width leaves it no room, the first column has lines of its own. Cells that would repeat are the caller's to leave empty.
pub fn table(head: &[&str], rows: &[Vec<String>], style: Style, width: Option<usize>) -> Vec<Line> {
    let head: Vec<String> = head.iter().map(|cell| styled(style, cell)).collect();
    let all = || std::iter::once(&head).chain(rows);
    let columns = head.len().saturating_sub(1);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = all().filter_map(|row| row.get(column));
            cells.map(|cell| cell_width(cell)).max().unwrap_or_default()
        })
        .collect();
    let hang: usize = widths.iter().map(|width| width + 2).sum();
    if width.is_some_and(|width| hang + LAST > width) {
        return all().flat_map(|row| stacked(row, &widths)).collect();
    }
    all()
        .map(|row| Line::new(filled(row, &widths)).hanging(hang))
        .collect()
}

/// Returns a row whose first cell, if it isn't empty, stands above the others.
fn stacked(row: &[String], widths: &[usize]) -> Vec<Line> {
    let Some((first, rest)) = row.split_first() else {
        return Vec::new();
    };
    let widths = widths.get(1..).unwrap_or_default();
    let rest = Line::new(format!("  {}", filled(rest, widths))).hanging(4);
    let first = Some(first).filter(|first| !first.is_empty());
    first
        .map(|first| Line::new(first.clone()))
        .into_iter()
        .chain([rest])
        .collect()
}

fn filled(row: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (column, cell) in row.iter().enumerate() {
        text.push_str(cell);
        if let Some(width) = widths.get(column) {
            let space = (width + 2).saturating_sub(cell_width(cell));
            text.push_str(&" ".repeat(space));
        }
    }
    text.trim_end().to_owned()
}

/// How wide a cell is once what it quotes was made safe.
fn cell_width(cell: &str) -> usize {
    display_width(&styled_line(cell))
}

/// Returns as much of a text as a screen has room for, and how many lines are left out.
pub fn on_a_screen(text: &str, rows: usize) -> String {
    let lines = text.lines().count();
    if lines <= rows || rows < 2 {
        return text.to_owned();
    }
    let mut shown: Vec<&str> = text.lines().take(rows - 1).collect();
    let more = format!(
        "… {} more lines: a larger terminal, or a NAME, shows them",
        lines - rows + 1
    );
    shown.push(&more);
    shown.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;
    use insta::assert_snapshot;

    use super::*;

    fn printed(line: &Line, width: usize) -> String {
        anstream::adapter::strip_str(&laid_out(line, Some(width))).to_string()
    }

    #[test]
    fn a_line_breaks_between_words_and_goes_on_below_its_text() {
        let style = AnsiColor::Red.on_default().bold();
        let text = format!(
            "  {} the copy in west has not been seen → running",
            styled(style, "waits:")
        );
        assert_snapshot!(printed(&Line::new(text.clone()), 30), @"
          waits: the copy in west has
            not been seen → running
        ");
        assert_snapshot!(printed(&Line::new(text).hanging(9), 30), @"
          waits: the copy in west has
                 not been seen →
                 running
        ");
    }

    #[test]
    fn names_and_commands_stay_whole() {
        let command = "  next: cutover approve shop/orders-to-the-other-west --phase Handoff";
        assert_eq!(printed(&Line::new(command).whole(), 40), command);
        let path = "s3://a-bucket/with/a/rather/long/path/to/a/savepoint";
        assert!(
            printed(&Line::new(format!("from {path} on")), 20)
                .lines()
                .any(|line| line.trim() == path)
        );
    }

    #[test]
    fn a_narrow_terminal_leaves_room_for_the_last_column() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [
            row([
                "FlinkDeployment shop/orders",
                "east",
                "not healthy: the image cannot be pulled",
            ]),
            row(["", "west", "held"]),
        ];
        let at = |width| {
            let lines = table(
                &["WORKLOAD", "CLUSTER", "STATE"],
                &rows,
                Style::new(),
                Some(width),
            );
            let lines: Vec<String> = lines.iter().map(|line| printed(line, width)).collect();
            lines.join("\n")
        };
        assert_snapshot!(at(80), @"
        WORKLOAD                     CLUSTER  STATE
        FlinkDeployment shop/orders  east     not healthy: the image cannot be pulled
                                     west     held
        ");
        assert_snapshot!(at(40), @"
        WORKLOAD
          CLUSTER  STATE
        FlinkDeployment shop/orders
          east     not healthy: the image cannot
            be pulled
          west     held
        ");
    }

    #[test]
    fn a_screen_says_how_much_it_leaves_out() {
        assert_eq!(on_a_screen("a\nb\n", 2), "a\nb\n");
        assert!(on_a_screen("a\nb\nc\n", 2).starts_with("a\n… 2 more lines"));
    }
}

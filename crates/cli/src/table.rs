//! Aligned columns of text.

use std::io::{self, Write};

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of cells under headings.
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A heading that begins with `>` is of a column aligned to the right.
    pub fn new(headings: &[&'static str]) -> Self {
        let column = |h: &&'static str| match h.strip_prefix('>') {
            Some(heading) => (heading, Align::Right),
            None => (*h, Align::Left),
        };
        Self { columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let width = |text: &str| text.chars().count();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|c| {
                let cells = self.rows.iter().map(|r| r.get(c).map_or(0, |cell| width(cell)));
                cells.chain([width(self.columns[c].0)]).max().unwrap_or(0)
            })
            .collect();
        let headings: Vec<String> = self.columns.iter().map(|(h, _)| (*h).to_owned()).collect();
        let heads = headings.iter().any(|h| !h.is_empty()).then_some(&headings);
        for row in heads.into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate().take(widths.len()) {
                let pad = " ".repeat(widths[c] - width(cell));
                match self.columns[c].1 {
                    Align::Left => line.extend([cell.as_str(), &pad]),
                    Align::Right => line.extend([pad.as_str(), cell]),
                }
                line.push_str("  ");
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_trailing_spaces() {
        let mut table = Table::new(&["name", ">bytes", "note"]);
        table.row(["a".into(), "1".into(), "".into()]);
        table.row(["longer".into(), "12345".into(), "é".into()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name    bytes  note\na           1\nlonger  12345  é\n");
    }
}

//! Tables in kubectl's manner: upper-case heads, two spaces between columns, no lines.

/// Rows under heads, each column as wide as its widest cell.
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(heads: &[&str]) -> Self {
        Self { heads: heads.iter().map(|head| head.to_uppercase()).collect(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn render(&self) -> String {
        let columns = self.heads.len();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.chain(self.heads.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in std::iter::once(&self.heads).chain(&self.rows) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A table without its first line.
pub fn without_heads(table: &str) -> String {
    table.split_once('\n').map_or_else(String::new, |(_, rows)| rows.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_by_characters() {
        let mut table = Table::new(&["name", "needs"]);
        table.row(["é".into(), "a,b".into()]);
        table.row(["long-name".into(), String::new()]);
        assert_eq!(table.render(), "NAME       NEEDS\né          a,b\nlong-name\n");
    }
}

//! Pictures of the documentation: what commands show on a terminal, drawn as SVG. Each is a capture of a real run.
//!
//! `SLIPWAY_PICTURES=write cargo test -p slipway --test it pictures` draws them anew (`cargo xtask pictures` does). Otherwise
//! the test fails when a picture shows something else than the command does now. Times, names of pods and the order of
//! lines differ from run to run and do not count.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::sandbox::Down;
use crate::screen::{Cell, Ink, InkColor, OnTerminal, Screen, ScreenRow, ScreenSize};
use crate::support::Place;
use crate::watching::{is_in_the_middle, shop_of_services};

/// Size of a character in a picture, in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 16.0;
/// Height of the bar above the text.
const BAR: f64 = 28.0;

/// A picture: its file below `docs/images`, the line a user types, and the rows that are shown.
struct Picture {
    name: &'static str,
    line: String,
    rows: Vec<ScreenRow>,
}

impl Picture {
    fn new(name: &'static str, line: &str, rows: &[ScreenRow]) -> Self {
        Self { name, line: line.to_owned(), rows: rows.to_vec() }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/images").join(format!("{}.svg", self.name))
    }

    fn draw(&self) -> String {
        let columns = self.rows.iter().map(|row| row.text().chars().count()).max().unwrap_or(0);
        let columns = columns.max(self.line.chars().count() + 2);
        let width = CELL.0.mul_add(columns as f64, 2.0 * MARGIN).ceil();
        let height = CELL.1.mul_add((self.rows.len() + 1) as f64, BAR + 2.0 * MARGIN).ceil();
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
             <title>{}</title>\n\
             <style>text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d4d7dd;white-space:pre}}\
             .r{{fill:#ff7b72}}.g{{fill:#7ee787}}.y{{fill:#e3b341}}.c{{fill:#79c0ff}}.b{{font-weight:bold}}.d{{fill-opacity:.6}}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#161b22\"/>\n\
             <g fill=\"#484f58\"><circle cx=\"20\" cy=\"18\" r=\"5\"/><circle cx=\"38\" cy=\"18\" r=\"5\"/><circle cx=\"56\" cy=\"18\" r=\"5\"/></g>\n",
            escape(&self.line),
        );
        let prompt = ScreenRow::plain(&format!("$ {}", self.line), Ink { bold: true, ..Ink::default() });
        for (index, row) in std::iter::once(&prompt).chain(&self.rows).enumerate() {
            let y = CELL.1.mul_add(index as f64, BAR + MARGIN + 13.0);
            let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\">{}</text>", draw_row(row));
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// A row as runs of one ink, each placed by its column, whatever font a viewer has.
fn draw_row(row: &ScreenRow) -> String {
    let width = row.text().chars().count();
    let mut drawn = String::new();
    let mut column = 0;
    for run in row.cells[..width].chunk_by(|one, two| one.ink == two.ink) {
        let text: String = run.iter().map(|cell| cell.letter).collect();
        let class = classes(run[0]);
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let x = CELL.0.mul_add(column as f64, MARGIN);
        let length = CELL.0 * run.len() as f64;
        let _ =
            write!(drawn, "<tspan x=\"{x:.1}\" textLength=\"{length:.1}\"{class}>{}</tspan>", escape(&text));
        column += run.len();
    }
    drawn
}

fn classes(cell: Cell) -> String {
    let color = match cell.ink.color {
        InkColor::Text => "",
        InkColor::Red => "r",
        InkColor::Green => "g",
        InkColor::Yellow => "y",
        InkColor::Cyan => "c",
    };
    let marks = [(color, true), ("b", cell.ink.bold), ("d", cell.ink.dim)];
    let marks: Vec<&str> =
        marks.iter().filter(|(mark, is_set)| *is_set && !mark.is_empty()).map(|(mark, _)| *mark).collect();
    marks.join(" ")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The lines a picture shows, without what differs from run to run, in the order of the alphabet.
fn told(svg: &str) -> Vec<String> {
    let tag = regex::Regex::new("<[^>]*>").unwrap();
    let texts = svg.lines().filter(|line| line.starts_with("<text"));
    let mut lines: Vec<String> = texts.map(|line| tag.replace_all(line, "").into_owned()).collect();
    // Whatever is ready at the first look is not waited for, and says nothing.
    lines.retain(|line| !line.starts_with("  ready ") && !line.starts_with("  Pod "));
    let differing = [
        (r"\d+ ready, ", ""),
        (r", restarted (once|\d+ times)", ""),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
        (r"\b(\d+m\d+s|\d+(\.\d+)?m?s)\b", "TIME"),
        (r"-[a-z0-9]{7,10}-[a-z0-9]{5}\b", "-POD"),
        (r"\s+", " "),
    ];
    for (pattern, word) in differing {
        let pattern = regex::Regex::new(pattern).unwrap();
        for line in &mut lines {
            *line = pattern.replace_all(line, word).trim().to_owned();
        }
    }
    lines.sort();
    lines
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').skip(1).collect()
}

/// Runs a line to its end on a terminal.
fn shown(place: &Place, line: &str, size: ScreenSize) -> Screen {
    OnTerminal::start(place, &words(line), size).finish().screen
}

#[test]
fn pictures_show_what_commands_show() {
    let wide = ScreenSize { columns: 100, rows: 40 };
    let place = Place::new();
    place.copy_as("examples", &PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/charts"));
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let down = Down(&place);
    let mut pictures = Vec::new();

    let line = "slipway apply demo examples/shop --sandbox";
    let public = |line: &str| line.replace("examples/shop", "examples/charts/shop");
    pictures.push(Picture::new("apply", &public(line), shown(&place, line, wide).rows()));
    let line = "slipway plan demo examples/shop --sandbox --set replicas=3";
    pictures.push(Picture::new("plan", &public(line), shown(&place, line, wide).rows()));
    let line = "slipway render demo examples/shop --set replicas=many";
    pictures.push(Picture::new("mistake", &public(line), shown(&place, line, wide).rows()));
    drop(down);

    place.run(&["sandbox", "up", "--detach"]).ok();
    let _down = Down(&place);
    shop_of_services(&place);
    let line = "slipway apply shop ./shop --sandbox -n shop";
    let mut running = OnTerminal::start(&place, &words(line), wide);
    let live = running.wait_until("the middle of a run", is_in_the_middle);
    running.interrupt();
    running.finish();
    // The lines of what is done have scrolled by above the table.
    let is_of_table = |row: &ScreenRow| row.text().starts_with("  Deployment ");
    let table = live.rows().iter().position(is_of_table).unwrap();
    pictures.push(Picture::new("live", line, &live.rows()[table..]));

    let is_writing = std::env::var("SLIPWAY_PICTURES").is_ok_and(|wish| wish == "write");
    for picture in pictures {
        let (path, drawn) = (picture.path(), picture.draw());
        let known = fs::read_to_string(&path).unwrap_or_default();
        if told(&known) == told(&drawn) {
            continue;
        }
        assert!(
            is_writing,
            "docs/images/{}.svg is stale: `cargo xtask pictures` draws it anew\nit shows\n{:#?}\nand the command\n{:#?}",
            picture.name,
            told(&known),
            told(&drawn)
        );
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, drawn).unwrap();
    }
}

//! Drawings as PDF files of one page, with text that can be selected.
//!
//! The letters are a font of type 3 that has only the letters of the drawing, as outlines, with a
//! map to Unicode. The file is independent of the installed fonts.
//!
//! Reference: ISO 32000-1:2008, "Portable document format, part 1: PDF 1.7", sections 7.5, 8.5 and
//! 9.6.5.

use super::{
    Anchor, Canvas, FONT_SIZE, Point,
    font::{self, Font},
    shape_style::ShapeStyle,
};
use flate2::{Compression, write::ZlibEncoder};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use tiny_skia::{Path, PathSegment};

/// Points (1/72 inch) per unit of the drawing (1/96 inch, as in style rules).
const POINTS_PER_UNIT: f64 = 0.75;

/// Units of the letters per font size.
const UNITS_PER_EM: f32 = 1000.0;

/// Maximum number of distinct letters: codes are bytes, and 0 is the empty box.
const MAX_LETTERS: usize = 255;

#[derive(Debug)]
pub(crate) struct PdfPage {
    size: Point,
    title: String,
    font: &'static Font,
    style: String,
    content: String,
    /// Distinct opacities, in percent.
    opacities: Vec<u32>,
    /// Distinct letters; the code of a letter is its index. The first one is the empty box.
    letters: Vec<char>,
}

/// Appends the operators that construct a path.
fn append_path(path: &Path, content: &mut String, transform: impl Fn(f32, f32) -> (f32, f32)) {
    let mut last = (0.0f32, 0.0f32);
    let mut append = |points: &[(f32, f32)], operator: &str| {
        for (x, y) in points {
            let (x, y) = transform(*x, *y);
            let _ = write!(content, "{x:.2} {y:.2} ");
        }
        let _ = writeln!(content, "{operator}");
    };
    for segment in path.segments() {
        match segment {
            PathSegment::MoveTo(p) => {
                append(&[(p.x, p.y)], "m");
                last = (p.x, p.y);
            }
            PathSegment::LineTo(p) => {
                append(&[(p.x, p.y)], "l");
                last = (p.x, p.y);
            }
            PathSegment::QuadTo(c, p) => {
                // the cubic curve of a quadratic one
                let third =
                    |from: (f32, f32)| (from.0 + (c.x - from.0) * 2.0 / 3.0, from.1 + (c.y - from.1) * 2.0 / 3.0);
                append(&[third(last), third((p.x, p.y)), (p.x, p.y)], "c");
                last = (p.x, p.y);
            }
            PathSegment::CubicTo(c1, c2, p) => {
                append(&[(c1.x, c1.y), (c2.x, c2.y), (p.x, p.y)], "c");
                last = (p.x, p.y);
            }
            PathSegment::Close => append(&[], "h"),
        }
    }
}

impl PdfPage {
    /// Returns an empty page of this size, in units of the drawing.
    pub(crate) fn new(size: Point, title: &str) -> Self {
        Self {
            size,
            title: title.to_string(),
            font: font::shared(),
            style: super::standalone_style(),
            content: String::new(),
            opacities: Vec::new(),
            letters: vec!['\0'],
        }
    }

    /// Appends the colours, width, dashes and opacity of a style.
    fn set_style(&mut self, style: &ShapeStyle) {
        let colour = |[red, green, blue]: [u8; 3], operator: &str| {
            let [red, green, blue] = [red, green, blue].map(|part| f64::from(part) / 255.0);
            format!("{red:.3} {green:.3} {blue:.3} {operator}\n")
        };
        self.content.extend(style.fill.map(|fill| colour(fill, "rg")));
        self.content.extend(style.stroke.map(|stroke| colour(stroke, "RG")));
        let [dash, gap] = style.dash;
        let dashes = if dash > 0.0 { format!("{dash} {gap}") } else { String::new() };
        let _ = writeln!(self.content, "{} w [{dashes}] 0 d", style.stroke_width);
        if style.opacity < 1.0 {
            let percent = (100.0 * style.opacity).round() as u32;
            let index = self.opacities.iter().position(|other| *other == percent).unwrap_or_else(|| {
                self.opacities.push(percent);
                self.opacities.len() - 1
            });
            let _ = writeln!(self.content, "/G{index} gs");
        }
    }

    /// Paints the path that `construct` appends, in the style of a class.
    fn paint(&mut self, class: &str, construct: impl FnOnce(&mut String)) {
        let style = ShapeStyle::for_classes(&self.style, class);
        let operator = match (style.fill, style.stroke) {
            (Some(_), Some(_)) => "B",
            (Some(_), None) => "f",
            (None, Some(_)) => "S",
            (None, None) => return,
        };
        self.content.push_str("q\n");
        self.set_style(&style);
        construct(&mut self.content);
        let _ = writeln!(self.content, "{operator} Q");
    }

    fn code_of(&mut self, letter: char) -> usize {
        match self.letters.iter().position(|other| *other == letter) {
            Some(code) => code,
            None if self.letters.len() <= MAX_LETTERS => {
                self.letters.push(letter);
                self.letters.len() - 1
            }
            None => 0,
        }
    }

    /// Returns the drawing procedure of a letter.
    fn letter_procedure(&self, letter: char) -> String {
        let word = letter.to_string();
        let mut procedure = format!("{:.0} 0 -300 -400 1600 1300 d1\n", self.font.text_width(&word, UNITS_PER_EM));
        if let Some(path) = self.font.outline(&word, UNITS_PER_EM).finish() {
            append_path(&path, &mut procedure, |x, y| (x, -y));
            procedure.push_str("f\n");
        }
        procedure
    }

    /// Returns the map from the codes of letters to Unicode.
    fn unicode_map(&self) -> String {
        let mut map = String::from(
            "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Letters def /CMapType 2 def\n\
             1 begincodespacerange <00> <FF> endcodespacerange\n",
        );
        // a block has at most 100 entries
        let entries: Vec<(usize, char)> = self.letters.iter().copied().enumerate().skip(1).collect();
        for block in entries.chunks(100) {
            let _ = writeln!(map, "{} beginbfchar", block.len());
            for (code, letter) in block {
                let _ = writeln!(map, "<{code:02X}> <{}>", utf16_hex(&letter.to_string()));
            }
            map.push_str("endbfchar\n");
        }
        map + "endcmap CMapName currentdict /CMap defineresource pop end end\n"
    }

    /// Returns the file.
    pub(crate) fn pdf(&self) -> io::Result<Vec<u8>> {
        let (width, height) = (self.size.0 * POINTS_PER_UNIT, self.size.1 * POINTS_PER_UNIT);
        // the y axis of the drawing points downwards; lines have round caps and joins
        let content = format!("{POINTS_PER_UNIT} 0 0 -{POINTS_PER_UNIT} 0 {height:.2} cm 1 J 1 j\n{}", self.content);
        let opacities: String = self
            .opacities
            .iter()
            .enumerate()
            .map(|(i, percent)| {
                let opacity = f64::from(*percent) / 100.0;
                format!("/G{i} << /ca {opacity} /CA {opacity} >> ")
            })
            .collect();
        let (count, first_letter) = (self.letters.len(), 8);
        let names: String = (0..count).map(|code| format!("/l{code} ")).collect();
        let procedures: String = (0..count).map(|code| format!("/l{code} {} 0 R ", first_letter + code)).collect();
        let widths: Vec<String> = self
            .letters
            .iter()
            .map(|letter| format!("{:.0}", self.font.text_width(&letter.to_string(), UNITS_PER_EM)))
            .collect();
        let last = count - 1;
        let mut objects = vec![
            b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
            format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:.2} {height:.2}] /Contents 4 0 R \
                 /Resources << /Font << /F 5 0 R >> /ExtGState << {opacities}>> >> >>"
            )
            .into_bytes(),
            stream(&content)?,
            format!(
                "<< /Type /Font /Subtype /Type3 /FontBBox [-300 -400 1600 1300] /FontMatrix [0.001 0 0 0.001 0 0] \
                 /Encoding << /Type /Encoding /Differences [0 {names}] >> /CharProcs << {procedures}>> /FirstChar 0 \
                 /LastChar {last} /Widths [{}] /ToUnicode 6 0 R /Resources << >> >>",
                widths.join(" ")
            )
            .into_bytes(),
            stream(&self.unicode_map())?,
            format!("<< /Title <FEFF{}> /Producer (kmill) >>", utf16_hex(&self.title)).into_bytes(),
        ];
        for letter in &self.letters {
            objects.push(stream(&self.letter_procedure(*letter))?);
        }
        Ok(file_of_objects(&objects))
    }
}

/// Returns the UTF-16 code units of a text, in hexadecimal.
fn utf16_hex(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("{unit:04X}")).collect()
}

/// Returns a compressed stream object.
fn stream(content: &str) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content.as_bytes())?;
    let data = encoder.finish()?;
    let head = format!("<< /Length {} /Filter /FlateDecode >>\nstream\n", data.len());
    Ok([head.as_bytes(), &data, b"\nendstream"].concat())
}

/// Returns a file of numbered objects, from 1, with the table of their positions. The first object
/// is the catalog, the seventh the information about the document.
fn file_of_objects(objects: &[Vec<u8>]) -> Vec<u8> {
    let (mut file, mut positions) = (b"%PDF-1.7\n%\xE2\xE3\xCF\xD3\n".to_vec(), String::new());
    for (i, object) in objects.iter().enumerate() {
        let _ = writeln!(positions, "{:010} 00000 n ", file.len());
        file.extend(format!("{} 0 obj\n", i + 1).bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let (start, size) = (file.len(), objects.len() + 1);
    file.extend(
        format!(
            "xref\n0 {size}\n0000000000 65535 f \n{positions}trailer\n<< /Size {size} /Root 1 0 R /Info 7 0 R >>\nstartxref\n\
             {start}\n%%EOF\n"
        )
        .bytes(),
    );
    file
}

impl Canvas for PdfPage {
    fn rectangle(&mut self, class: &str, (x, y): Point, (width, height): Point, _: Option<&str>) {
        self.paint(class, |content| {
            let _ = writeln!(content, "{x:.2} {y:.2} {width:.2} {height:.2} re");
        });
    }

    fn lines(&mut self, class: &str, segments: &[[Point; 2]], _: Option<&str>) {
        self.paint(class, |content| {
            for [(x0, y0), (x1, y1)] in segments {
                let _ = writeln!(content, "{x0:.2} {y0:.2} m {x1:.2} {y1:.2} l");
            }
        });
    }

    fn path(&mut self, class: &str, points: &[Point], closed: bool, _: Option<&str>) {
        self.paint(class, |content| {
            for (i, (x, y)) in points.iter().enumerate() {
                let _ = writeln!(content, "{x:.2} {y:.2} {}", if i == 0 { "m" } else { "l" });
            }
            content.push_str(if closed { "h\n" } else { "" });
        });
    }

    fn circle(&mut self, class: &str, (x, y): Point, radius: f64, _: Option<&str>) {
        let mut path = tiny_skia::PathBuilder::new();
        path.push_circle(x as f32, y as f32, radius as f32);
        let Some(path) = path.finish() else { return };
        self.paint(class, |content| append_path(&path, content, |x, y| (x, y)));
    }

    fn word(&mut self, class: &str, word: &str, (x, y): Point, anchor: Anchor) {
        let style = ShapeStyle::for_classes(&self.style, class);
        let width = f64::from(self.font.text_width(word, FONT_SIZE as f32));
        let start = match anchor {
            Anchor::Start => 0.0,
            Anchor::End => -width,
            Anchor::Middle | Anchor::Upwards => -width / 2.0,
        };
        let is_upwards = anchor == Anchor::Upwards;
        let (x, y) = if is_upwards { (x, y - start) } else { (x + start, y) };
        self.content.push_str("q\n");
        self.set_style(&style);
        if let (Some(_), Some(outline)) = (style.stroke, self.font.outline(word, FONT_SIZE as f32).finish()) {
            // an outline in the background colour, behind the letters
            let position = |dx: f32, dy: f32| match is_upwards {
                true => (x as f32 + dy, y as f32 - dx),
                false => (x as f32 + dx, y as f32 + dy),
            };
            append_path(&outline, &mut self.content, position);
            self.content.push_str("S\n");
        }
        let codes: String = word.chars().map(|letter| format!("{:02X}", self.code_of(letter))).collect();
        let matrix = if is_upwards { "0 -1 -1 0" } else { "1 0 0 -1" };
        let _ = writeln!(self.content, "BT /F {FONT_SIZE} Tf {matrix} {x:.2} {y:.2} Tm <{codes}> Tj ET Q");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Returns the decompressed streams of a file.
    fn streams(file: &[u8]) -> Vec<String> {
        let find = |pattern: &[u8], from: usize| {
            file[from..].windows(pattern.len()).position(|window| window == pattern).map(|at| from + at)
        };
        let (mut from, mut found) = (0, Vec::new());
        while let Some(start) = find(b"\nstream\n", from) {
            let end = find(b"\nendstream", start).unwrap();
            let mut text = String::new();
            flate2::read::ZlibDecoder::new(&file[start + 8..end]).read_to_string(&mut text).unwrap();
            found.push(text);
            from = end;
        }
        found
    }

    #[test]
    fn objects_are_where_the_table_says_and_letters_map_to_unicode() {
        let mut page = PdfPage::new((400.0, 200.0), "α & b");
        page.rectangle("paper", (0.0, 0.0), (400.0, 200.0), None);
        page.lines("border", &[[(100.0, 50.0), (200.0, 50.0)]], None);
        page.circle("row c1", (300.0, 100.0), 4.0, None);
        page.path("band c2", &[(60.0, 30.0), (64.0, 30.0), (64.0, 34.0)], true, None);
        page.word("name", "10⁻⁴ α", (40.0, 20.0), Anchor::Middle);
        page.word("label", "up", (50.0, 60.0), Anchor::Upwards);
        let file = page.pdf().unwrap();
        let text = String::from_utf8_lossy(&file);
        let start: usize = text.trim_end().lines().rev().nth(1).unwrap().parse().unwrap();
        assert!(file[start..].starts_with(b"xref\n0 "), "the position of the table");
        let table = String::from_utf8_lossy(&file[start..]).into_owned();
        let positions: Vec<usize> =
            table.lines().filter(|line| line.ends_with(" n ")).map(|line| line[..10].parse().unwrap()).collect();
        for (i, position) in positions.iter().enumerate() {
            assert!(file[*position..].starts_with(format!("{} 0 obj\n", i + 1).as_bytes()), "object {}", i + 1);
        }
        // the letters 1, 0, ⁻, ⁴, space, α, u, p and the empty box
        assert_eq!(positions.len(), 7 + 9);
        assert!(text.contains("/MediaBox [0 0 300.00 150.00]") && text.contains("/Title <FEFF03B1002000260020"));
        let streams = streams(&file);
        assert!(
            streams[1].contains("<01> <0031>")
                && streams[1].contains("<03> <207B>")
                && streams[1].contains("<06> <03B1>"),
            "{}",
            streams[1]
        );
        let content = &streams[0];
        assert!(content.contains("<010203040506> Tj") && content.contains("0 -1 -1 0"), "{content}");
        assert!(content.contains("100.00 50.00 m 200.00 50.00 l") && content.contains("/G0 gs"), "{content}");
        assert_eq!((content.matches("q\n").count(), content.matches(" Q").count()), (6, 6), "{content}");
        assert!(streams[2..].iter().all(|letter| letter.contains(" d1\n")));
    }
}

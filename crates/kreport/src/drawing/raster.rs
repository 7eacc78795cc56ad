//! Raster images and their PNG files.
//!
//! Reference: W3C, "Portable Network Graphics (PNG) Specification (Third Edition)", 2025, sections
//! 5 and 11.

use super::{
    Anchor, Canvas, FONT_SIZE, Point,
    font::{self, Font},
    shape_style::ShapeStyle,
};
use flate2::{Compression, Crc, write::ZlibEncoder};
use std::io::{self, Write};
use tiny_skia::{FillRule, LineCap, Paint, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform};

/// Pixels per unit of the drawing: sharp on screens of twice the usual density.
const PIXELS_PER_UNIT: f32 = 2.0;

#[derive(Debug)]
pub(crate) struct RasterImage {
    pixmap: Pixmap,
    font: &'static Font,
    style: String,
}

impl RasterImage {
    /// Returns an empty image of this size, in units of the drawing.
    pub(crate) fn new((width, height): Point) -> Self {
        let pixels = |length: f64| (f64::from(PIXELS_PER_UNIT) * length) as u32;
        let pixmap = Pixmap::new(pixels(width), pixels(height)).expect("a picture has a size");
        Self { pixmap, font: font::shared(), style: super::standalone_style() }
    }

    /// Fills a shape and strokes its outline, before or after filling.
    fn draw_shape(&mut self, path: PathBuilder, class: &str, transform: Transform, is_stroke_first: bool) {
        let Some(path) = path.finish() else { return };
        let style = ShapeStyle::for_classes(&self.style, class);
        let dash = StrokeDash::new(style.dash.to_vec(), 0.0).filter(|_| style.dash[0] > 0.0);
        let stroke = Stroke { width: style.stroke_width, line_cap: LineCap::Round, dash, ..Stroke::default() };
        for is_stroke in [is_stroke_first, !is_stroke_first] {
            match (is_stroke, solid_paint(if is_stroke { style.stroke } else { style.fill }, style.opacity)) {
                (true, Some(paint)) => self.pixmap.stroke_path(&path, &paint, &stroke, transform, None),
                (false, Some(paint)) => self.pixmap.fill_path(&path, &paint, FillRule::Winding, transform, None),
                (_, None) => {}
            }
        }
    }

    pub(crate) fn png(&self) -> io::Result<Vec<u8>> {
        let (width, height) = (self.pixmap.width(), self.pixmap.height());
        let mut compressed_rows = ZlibEncoder::new(Vec::new(), Compression::default());
        for row in self.pixmap.data().chunks_exact(4 * width as usize) {
            // no filter; the background is opaque, so transparency is dropped
            let rgb_bytes: Vec<u8> = row.chunks_exact(4).flat_map(|pixel| &pixel[..3]).copied().collect();
            compressed_rows.write_all(&[0])?;
            compressed_rows.write_all(&rgb_bytes)?;
        }
        // the image has eight bits for each of red, green and blue, deflate compression, adaptive
        // filters, and no interlacing
        let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        for (chunk_type, data) in [(b"IHDR", header), (b"IDAT", compressed_rows.finish()?), (b"IEND", Vec::new())] {
            let mut checksum = Crc::new();
            checksum.update(chunk_type);
            checksum.update(&data);
            file.extend(
                [&(data.len() as u32).to_be_bytes()[..], chunk_type, &data, &checksum.sum().to_be_bytes()].concat(),
            );
        }
        Ok(file)
    }
}

fn pixel_transform() -> Transform {
    Transform::from_scale(PIXELS_PER_UNIT, PIXELS_PER_UNIT)
}

fn solid_paint(colour: Option<[u8; 3]>, opacity: f32) -> Option<Paint<'static>> {
    let [red, green, blue] = colour?;
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(red, green, blue, (255.0 * opacity).round() as u8);
    Some(paint)
}

impl Canvas for RasterImage {
    fn rectangle(&mut self, class: &str, (x, y): Point, (width, height): Point, _: Option<&str>) {
        let style = ShapeStyle::for_classes(&self.style, class);
        let area = Rect::from_xywh(x as f32, y as f32, width as f32, height as f32);
        if let (Some(area), Some(paint)) = (area, solid_paint(style.fill, style.opacity)) {
            // without anti-aliasing, which would show seams between adjacent rectangles
            let paint = Paint { anti_alias: false, ..paint };
            self.pixmap.fill_rect(area, &paint, pixel_transform(), None);
        }
    }

    fn lines(&mut self, class: &str, segments: &[[Point; 2]], _: Option<&str>) {
        let mut path = PathBuilder::new();
        for [(x0, y0), (x1, y1)] in segments {
            path.move_to(*x0 as f32, *y0 as f32);
            path.line_to(*x1 as f32, *y1 as f32);
        }
        self.draw_shape(path, class, pixel_transform(), false);
    }

    fn path(&mut self, class: &str, points: &[Point], closed: bool, _: Option<&str>) {
        let mut path = PathBuilder::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let (x, y) = (*x as f32, *y as f32);
            if i == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
        }
        if closed {
            path.close();
        }
        self.draw_shape(path, class, pixel_transform(), false);
    }

    fn circle(&mut self, class: &str, (x, y): Point, radius: f64, _: Option<&str>) {
        let mut path = PathBuilder::new();
        path.push_circle(x as f32, y as f32, radius as f32);
        self.draw_shape(path, class, pixel_transform(), false);
    }

    fn word(&mut self, class: &str, word: &str, (x, y): Point, anchor: Anchor) {
        let font_size = FONT_SIZE as f32;
        let width = self.font.text_width(word, font_size);
        let start = match anchor {
            Anchor::Start => 0.0,
            Anchor::End => -width,
            Anchor::Middle | Anchor::Upwards => -width / 2.0,
        };
        let angle = if anchor == Anchor::Upwards { -90.0 } else { 0.0 };
        let transform = Transform::from_translate(start, 0.0)
            .post_rotate(angle)
            .post_translate(x as f32, y as f32)
            .post_scale(PIXELS_PER_UNIT, PIXELS_PER_UNIT);
        // if the letters have an outline in the background colour, draw it behind them
        self.draw_shape(self.font.outline(word, font_size), class, transform, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_where_they_were_drawn() {
        let mut pixels = RasterImage::new((760.0, 520.0));
        pixels.rectangle("paper", (0.0, 0.0), (760.0, 520.0), None);
        pixels.rectangle("shade h11", (10.0, 10.0), (20.0, 5.0), None);
        pixels.lines("border", &[[(100.0, 50.0), (200.0, 50.0)]], None);
        pixels.circle("row c1", (300.0, 100.0), 4.0, None);
        pixels.path("mark c2", &[(600.0, 300.0), (640.0, 300.0), (640.0, 340.0), (600.0, 340.0)], true, None);
        pixels.word("name", "x0", (400.0, 200.0), Anchor::Middle);
        pixels.word("name", "x0", (500.0, 200.0), Anchor::Upwards);
        let colour_at = |x: f64, y: f64| {
            let pixel = pixels.pixmap.pixel((2.0 * x) as u32, (2.0 * y) as u32).unwrap();
            [pixel.red(), pixel.green(), pixel.blue()]
        };
        assert_eq!(
            (colour_at(5.0, 5.0), colour_at(300.0, 100.0), colour_at(150.0, 50.0)),
            ([255; 3], [0xc8, 0x50, 0x0a], [0x1b, 0x1e, 0x23])
        );
        assert_eq!((colour_at(620.0, 320.0), colour_at(650.0, 320.0)), ([0x00, 0x79, 0x5c], [255; 3]));
        // 70 % of the shade's blue on white
        let near = |actual: [u8; 3], expected: [u8; 3]| actual.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 2);
        assert!(
            near(colour_at(20.0, 12.0), [0x54, 0x91, 0xbe]) && colour_at(20.0, 16.0) == [255; 3],
            "{:?}",
            colour_at(20.0, 12.0)
        );
        let dark = |x: std::ops::Range<u32>, y: std::ops::Range<u32>| {
            x.flat_map(|x| y.clone().map(move |y| (x, y)))
                .filter(|(x, y)| colour_at(f64::from(*x), f64::from(*y))[0] < 128)
                .count()
        };
        let (level, upwards) = (dark(390..410, 190..201), dark(490..501, 190..210));
        assert!(level > 10 && upwards > 10 && dark(390..410, 202..230) == 0, "{level} {upwards}");
    }

    #[test]
    fn the_file_is_made_of_chunks_that_add_up() {
        let png = RasterImage::new((760.0, 520.0)).png().unwrap();
        let (mut rest, mut kinds) = (png.strip_prefix(b"\x89PNG\r\n\x1a\n").unwrap(), Vec::new());
        while let Some((length, chunk)) = rest.split_first_chunk::<4>() {
            let (body, behind) = chunk.split_at(4 + u32::from_be_bytes(*length) as usize);
            let mut checksum = Crc::new();
            checksum.update(body);
            assert_eq!(checksum.sum().to_be_bytes(), behind[..4]);
            kinds.push((String::from_utf8_lossy(&body[..4]).into_owned(), body[4..].to_vec()));
            rest = &behind[4..];
        }
        assert_eq!(kinds.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), ["IHDR", "IDAT", "IEND"]);
        assert_eq!(kinds[0].1, [0, 0, 5, 240, 0, 0, 4, 16, 8, 2, 0, 0, 0], "1520 x 1040 in colour");
        let mut rows = Vec::new();
        io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&kinds[1].1[..]), &mut rows).unwrap();
        assert_eq!(rows.len(), 1040 * (1 + 3 * 1520));
    }
}

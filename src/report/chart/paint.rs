//! Paints a picture as SVG or PNG, with a font of our own: a machine without any gives the same picture.

use std::io::Write;
use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, ScaleFont, point};
use flate2::{Compression, Crc, write::ZlibEncoder};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle, register_font};

use super::picture::{Anchor, Ink, Picture, Shape, Theme, WIDTH};
use crate::error::{Doing, Error, Result};

/// A cut of DejaVu Sans; `font/LICENSE` says from where and on what terms.
pub const FONT: &[u8] = include_bytes!("font/DejaVuSans-subset.ttf");
const FAMILY: &str = "rpctap";
/// What stands in the SVG: our name for the embedded font first, then what a viewer may have.
pub const FAMILIES: &str = "rpctap, DejaVu Sans, Verdana, sans-serif";
/// Coordinates are whole numbers to plotters: twice the units make lines smooth and text sharp.
const SCALE: f64 = 2.0;
/// Height of a line of DejaVu Sans (ascent and descent) in em: what plotters calls the size of a bitmap font.
const LINE: f64 = 1.164;
/// What plotters divides a font's size by when it writes SVG, and where it puts the baseline.
const SVG_EM: f64 = 1.24;
const SVG_TOP: f64 = 0.76;

/// plotters wants to know every font it is asked for, also where it only writes down its name.
static REGISTERED: LazyLock<bool> = LazyLock::new(|| register_font(FAMILY, FontStyle::Normal, FONT).is_ok());

static PARSED: LazyLock<FontRef<'static>> =
    LazyLock::new(|| FontRef::try_from_slice(FONT).expect("the embedded font is whole"));

/// How wide a text is, in the units of a picture.
pub fn text_width(text: &str, size: f64) -> f64 {
    let font = PARSED.as_scaled((size * LINE) as f32);
    text.chars().map(|c| f64::from(font.h_advance(font.glyph_id(c)))).sum()
}

/// Draws a text into a bitmap. plotters sets letters at whole pixels and without their bearing, which tears words
/// apart and runs letters into each other.
fn draw_letters<B: DrawingBackend>(
    to: &mut B,
    text: &str,
    (x, baseline): (f64, f64),
    em: f64,
    colour: (u8, u8, u8),
) -> Result<()> {
    let font = PARSED.as_scaled((em * LINE) as f32);
    let mut x = x as f32;
    for c in text.chars() {
        let mut glyph = font.scaled_glyph(c);
        glyph.position = point(x, baseline as f32);
        x += font.h_advance(glyph.id);
        let Some(outline) = font.outline_glyph(glyph) else { continue };
        let corner = outline.px_bounds().min;
        let mut pixels = Vec::new();
        outline.draw(|dx, dy, cover| pixels.push((dx as i32 + corner.x as i32, dy as i32 + corner.y as i32, cover)));
        for (px, py, cover) in pixels.into_iter().filter(|pixel| pixel.2 > 0.0) {
            let paint = RGBColor(colour.0, colour.1, colour.2).mix(f64::from(cover.min(1.0)));
            to.draw_pixel((px, py), paint.to_backend_color()).doing("drawing a chart")?;
        }
    }
    Ok(())
}

/// A whole SVG file, its font inside.
pub fn svg_file(picture: &Picture, theme: Theme) -> Result<Vec<u8>> {
    let face =
        format!("<style>@font-face{{font-family:rpctap;src:url(data:font/ttf;base64,{})}}</style>\n", base64(FONT));
    Ok(svg(picture, theme, &face)?.into_bytes())
}

/// An SVG element for a page that brings the font itself.
pub fn svg_element(picture: &Picture, theme: Theme) -> Result<String> {
    svg(picture, theme, "")
}

fn svg(picture: &Picture, theme: Theme, style: &str) -> Result<String> {
    let size = pixels(picture);
    let mut drawn = String::new();
    paint(picture, theme, &mut SVGBackend::with_string(&mut drawn, size), true)?;
    let body = drawn.find('>').map_or("", |end| &drawn[end + 1..]);
    let body = body.replace("font-family=\"rpctap\"", "");
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" \
         font-family=\"{FAMILIES}\">\n<title>{}</title>\n{style}{}",
        size.0 / SCALE as u32,
        size.1 / SCALE as u32,
        size.0,
        size.1,
        escaped(&picture.title),
        body.trim_start()
    ))
}

pub fn png(picture: &Picture, theme: Theme) -> Result<Vec<u8>> {
    let (width, height) = pixels(picture);
    let mut rgb = vec![0; width as usize * height as usize * 3];
    paint(picture, theme, &mut BitMapBackend::with_buffer(&mut rgb, (width, height)), false)?;
    encode_png(width, height, &rgb).map_err(|cause| Error::new(format!("drawing a chart: {cause}")))
}

fn pixels(picture: &Picture) -> (u32, u32) {
    ((WIDTH * SCALE) as u32, (picture.height * SCALE) as u32)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn paint<B: DrawingBackend>(picture: &Picture, theme: Theme, to: &mut B, is_svg: bool) -> Result<()> {
    assert!(*REGISTERED, "the embedded font is whole");
    let trouble = |cause: &dyn std::fmt::Display| Error::new(format!("drawing a chart: {cause}"));
    let place = |x: f64, y: f64| ((x * SCALE).round() as i32, (y * SCALE).round() as i32);
    let style = |ink: Ink, opacity: f64, filled: bool, width: f64| {
        let (r, g, b) = theme.colour(ink);
        let color = RGBColor(r, g, b).mix(opacity);
        ShapeStyle { color, filled, stroke_width: (width * SCALE).round().max(1.0) as u32 }
    };
    let size = pixels(picture);
    to.draw_rect((0, 0), (size.0 as i32, size.1 as i32), &style(Ink::Ground, 1.0, true, 1.0), true)
        .map_err(|cause| trouble(&cause))?;
    for shape in &picture.shapes {
        let done = match shape {
            Shape::Rect { x, y, w, h, ink, opacity } => {
                to.draw_rect(place(*x, *y), place(x + w, y + h), &style(*ink, *opacity, true, 1.0), true)
            }
            Shape::Line { points, ink, width, opacity } => {
                to.draw_path(points.iter().map(|(x, y)| place(*x, *y)), &style(*ink, *opacity, false, *width))
            }
            Shape::Area { points, ink, opacity } => {
                to.fill_polygon(points.iter().map(|(x, y)| place(*x, *y)), &style(*ink, *opacity, true, 1.0))
            }
            Shape::Dot { x, y, radius, ink } => {
                to.draw_circle(place(*x, *y), (radius * SCALE).round() as u32, &style(*ink, 1.0, true, 1.0), true)
            }
            Shape::Text { x, y, text, size, ink, anchor } => {
                let em = size * SCALE;
                let colour = theme.colour(*ink);
                if is_svg {
                    let h_pos = match anchor {
                        Anchor::Start => HPos::Left,
                        Anchor::Middle => HPos::Center,
                        Anchor::End => HPos::Right,
                    };
                    let paint = RGBColor(colour.0, colour.1, colour.2);
                    let style = TextStyle::from((FAMILY, em * SVG_EM).into_font())
                        .color(&paint)
                        .pos(Pos::new(h_pos, VPos::Top));
                    // plotters puts the baseline this far below what it calls the top.
                    let at = ((x * SCALE).round() as i32, (y * SCALE - em * SVG_TOP).round() as i32);
                    to.draw_text(text, &style, at)
                } else {
                    let wide = text_width(text, em);
                    let left = match anchor {
                        Anchor::Start => x * SCALE,
                        Anchor::Middle => x * SCALE - wide / 2.0,
                        Anchor::End => x * SCALE - wide,
                    };
                    draw_letters(to, text, (left, (y * SCALE).round()), em, colour)?;
                    Ok(())
                }
            }
        };
        done.map_err(|cause| trouble(&cause))?;
    }
    to.present().map_err(|cause| trouble(&cause))
}

fn encode_png(width: u32, height: u32, rgb: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        let mut crc = Crc::new();
        crc.update(kind);
        crc.update(data);
        out.extend_from_slice(&(data.len() as u32).to_be_bytes());
        out.extend_from_slice(kind);
        out.extend_from_slice(data);
        out.extend_from_slice(&crc.sum().to_be_bytes());
    };
    let mut head = Vec::new();
    head.extend_from_slice(&width.to_be_bytes());
    head.extend_from_slice(&height.to_be_bytes());
    // Eight bits each of red, green and blue; deflate; one filter per row; not interlaced.
    head.extend_from_slice(&[8, 2, 0, 0, 0]);
    chunk(b"IHDR", &head);
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
    let row = width as usize * 3;
    let mut above = vec![0_u8; row];
    for line in rgb.chunks_exact(row) {
        // Rows repeat in charts: the difference to the row above is mostly nothing.
        let filtered: Vec<u8> = line.iter().zip(&above).map(|(here, up)| here.wrapping_sub(*up)).collect();
        zlib.write_all(&[2])?;
        zlib.write_all(&filtered)?;
        above.copy_from_slice(line);
    }
    chunk(b"IDAT", &zlib.finish()?);
    chunk(b"IEND", &[]);
    Ok(out)
}

pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let group = three.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for letter in 0..4 {
            let index = (group >> (18 - 6 * letter)) as usize & 63;
            out.push(if letter > three.len() { '=' } else { LETTERS[index] as char });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn the_font_measures() {
        assert!(text_width("iiii", 12.0) < text_width("mmmm", 12.0));
        assert!((text_width("rpctap", 24.0) / text_width("rpctap", 12.0) - 2.0).abs() < 0.05);
    }

    #[test]
    fn hostile_labels_break_neither_picture() {
        let mut picture = Picture::new("</title><script>alert(1)</script>\u{0}\u{202e}");
        picture.height = 40.0;
        picture.text(5.0, 20.0, "\u{0}\x1b</text><script>&amp;]]>\u{fffe}\u{2028}検索", 12.0, Ink::Text, Anchor::Start);
        let text = String::from_utf8(svg_file(&picture, Theme::Light).unwrap()).unwrap();
        assert!(!text.contains("<script") && !text.contains("</text><"), "{text}");
        assert!(!text.chars().any(|c| (c < ' ' && c != '\n') || c == '\u{fffe}' || c == '\u{202e}'));
        assert!(png(&picture, Theme::Dark).unwrap().starts_with(b"\x89PNG"));
    }
}

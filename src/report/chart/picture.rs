//! A picture before it is painted: shapes in units of a screen 800 wide, in inks that a theme gives a colour.
//!
//! The charts make it, [`super::paint`] turns it into SVG or PNG; so both show the same, and a test can look at
//! the shapes. Text is made safe on the way in: nothing from the wire can break the picture or its XML.

use crate::report::safe;

/// How wide every chart is, in its own units.
pub const WIDTH: f64 = 800.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ink {
    Ground,
    Panel,
    Text,
    Muted,
    Grid,
    /// Open requests of the client, of the server; tasks.
    Open(usize),
    /// By [`crate::exchange::LeakKind`].
    Leak(usize),
    Good,
    Cancel,
    Bad,
    Gauge(usize),
}

impl Ink {
    pub const ALL: [Ink; 23] = [
        Ink::Ground,
        Ink::Panel,
        Ink::Text,
        Ink::Muted,
        Ink::Grid,
        Ink::Open(0),
        Ink::Open(1),
        Ink::Open(2),
        Ink::Leak(0),
        Ink::Leak(1),
        Ink::Leak(2),
        Ink::Leak(3),
        Ink::Leak(4),
        Ink::Leak(5),
        Ink::Leak(6),
        Ink::Leak(7),
        Ink::Good,
        Ink::Cancel,
        Ink::Bad,
        Ink::Gauge(0),
        Ink::Gauge(1),
        Ink::Gauge(2),
        Ink::Gauge(3),
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    #[default]
    Light,
    Dark,
}

impl Theme {
    pub fn colour(self, ink: Ink) -> (u8, u8, u8) {
        // No two inks of the light theme have the same colour: the page turns it dark by rules on colours.
        let (light, dark) = match ink {
            Ink::Ground => (0xffffff, 0x0e1116),
            Ink::Panel => (0xf8f9fb, 0x141920),
            Ink::Text => (0x1c2128, 0xe8edf3),
            Ink::Muted => (0x5b6470, 0x9aa5b1),
            Ink::Grid => (0xe2e5ea, 0x28303a),
            Ink::Open(0) => (0x0b4f8a, 0x6cb6ff),
            Ink::Open(1) => (0x5e3c99, 0xc297ff),
            Ink::Open(_) => (0x1d7a5f, 0x56d3a6),
            Ink::Leak(0) => (0xd1332e, 0xff6b5e),
            Ink::Leak(1) => (0xee7d22, 0xf79a4c),
            Ink::Leak(2) => (0xb5517f, 0xe386b1),
            Ink::Leak(3) => (0xf2b807, 0xf4cc43),
            Ink::Leak(4) => (0x8c5a2b, 0xc8966a),
            Ink::Leak(5) => (0x2a9d8f, 0x4fc4b6),
            Ink::Leak(6) => (0x6a994e, 0x9bc57f),
            Ink::Leak(_) => (0x7b6fb0, 0xa79ede),
            Ink::Good => (0x3a87c8, 0x4d94d6),
            Ink::Cancel => (0xb7860b, 0xe3b341),
            Ink::Bad => (0xcf2f2b, 0xff6059),
            Ink::Gauge(0) => (0x111827, 0xffffff),
            Ink::Gauge(1) => (0x00798c, 0x49c6d8),
            Ink::Gauge(2) => (0x8b2fc9, 0xcf8bff),
            Ink::Gauge(_) => (0x556b2f, 0xa9c46c),
        };
        let rgb: u32 = if self == Theme::Light { light } else { dark };
        ((rgb >> 16) as u8, (rgb >> 8) as u8, rgb as u8)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    Rect {
        x: f64,
        y: f64,
        w: f64,
        h: f64,
        ink: Ink,
        opacity: f64,
    },
    Line {
        points: Vec<(f64, f64)>,
        ink: Ink,
        width: f64,
        opacity: f64,
    },
    Area {
        points: Vec<(f64, f64)>,
        ink: Ink,
        opacity: f64,
    },
    Dot {
        x: f64,
        y: f64,
        radius: f64,
        ink: Ink,
    },
    /// `y` is the baseline.
    Text {
        x: f64,
        y: f64,
        text: String,
        size: f64,
        ink: Ink,
        anchor: Anchor,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub height: f64,
    /// For those who cannot see it.
    pub title: String,
    pub shapes: Vec<Shape>,
}

impl Picture {
    pub fn new(title: &str) -> Picture {
        Picture { height: 0.0, title: safe::clip(title, 200), shapes: Vec::new() }
    }

    pub fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, ink: Ink, opacity: f64) {
        self.shapes.push(Shape::Rect { x, y, w, h, ink, opacity });
    }

    pub fn line(&mut self, points: Vec<(f64, f64)>, ink: Ink, width: f64) {
        if points.len() > 1 {
            self.shapes.push(Shape::Line { points, ink, width, opacity: 1.0 });
        }
    }

    /// A straight line of dashes.
    pub fn dashes(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink, width: f64) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let length = dx.hypot(dy);
        let mut done = 0.0;
        while done < length {
            let end = (done + 5.0).min(length);
            let at = |part: f64| (from.0 + dx * part / length, from.1 + dy * part / length);
            self.line(vec![at(done), at(end)], ink, width);
            done += 9.0;
        }
    }

    pub fn area(&mut self, points: Vec<(f64, f64)>, ink: Ink, opacity: f64) {
        if points.len() > 2 {
            self.shapes.push(Shape::Area { points, ink, opacity });
        }
    }

    pub fn dot(&mut self, x: f64, y: f64, radius: f64, ink: Ink) {
        self.shapes.push(Shape::Dot { x, y, radius, ink });
    }

    pub fn text(&mut self, x: f64, y: f64, text: &str, size: f64, ink: Ink, anchor: Anchor) {
        let text = safe::safe(text).into_owned();
        self.shapes.push(Shape::Text { x, y, text, size, ink, anchor });
    }

    /// Text that must not be wider than `room`.
    #[allow(clippy::too_many_arguments)]
    pub fn text_within(&mut self, x: f64, y: f64, room: f64, text: &str, size: f64, ink: Ink, anchor: Anchor) {
        self.text(x, y, &fitted(text, size, room), size, ink, anchor);
    }
}

/// The text, clipped so that it takes at most `room`.
pub fn fitted(text: &str, size: f64, room: f64) -> String {
    // A first cut by columns keeps a name of a megabyte from being measured letter by letter.
    let text = safe::clip(text, (room / size * 4.0) as usize);
    if super::paint::text_width(&text, size) <= room {
        return text;
    }
    let mut kept: Vec<char> = text.trim_end_matches('…').chars().collect();
    while !kept.is_empty() {
        kept.pop();
        let shorter: String = kept.iter().collect::<String>() + "…";
        if super::paint::text_width(&shorter, size) <= room {
            return shorter;
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inks_differ_in_each_theme() {
        for theme in [Theme::Light, Theme::Dark] {
            let mut colours: Vec<_> = Ink::ALL.iter().map(|ink| theme.colour(*ink)).collect();
            colours.sort();
            colours.dedup();
            assert_eq!(colours.len(), Ink::ALL.len());
        }
    }

    #[test]
    fn long_text_is_fitted() {
        let short = fitted(&"tools/call ".repeat(1000), 12.0, 100.0);
        assert!(short.ends_with('…') && super::super::paint::text_width(&short, 12.0) <= 100.0, "{short}");
        assert_eq!(fitted("ping", 12.0, 100.0), "ping");
    }
}

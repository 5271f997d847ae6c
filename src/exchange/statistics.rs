//! The few statistics that a trend is judged with. They know nothing of requests.

/// The probability that chance alone gives a series that rises this much or more. Ties are corrected for.
pub fn mann_kendall(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mut score = 0.0;
    for (place, earlier) in values.iter().enumerate() {
        for later in &values[place + 1..] {
            score += match later.total_cmp(earlier) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Less => -1.0,
                std::cmp::Ordering::Equal => 0.0,
            };
        }
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let spread = |count: f64| count * (count - 1.0) * (2.0 * count + 5.0);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|group| spread(group.len() as f64)).sum();
    let variance = (spread(n) - ties) / 18.0;
    if variance <= 0.0 || score <= 0.0 {
        return 1.0;
    }
    upper_tail((score - 1.0) / variance.sqrt())
}

/// The median of the slopes between all pairs of points; `None` without two points apart.
pub fn theil_sen(x: &[f64], y: &[f64]) -> Option<f64> {
    let mut slopes = Vec::with_capacity(x.len() * x.len() / 2);
    for a in 0..x.len() {
        for b in a + 1..x.len() {
            if x[b] > x[a] {
                slopes.push((y[b] - y[a]) / (x[b] - x[a]));
            }
        }
    }
    slopes.sort_by(f64::total_cmp);
    let middle = slopes.len() / 2;
    match slopes.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(slopes[middle]),
        _ => Some((slopes[middle - 1] + slopes[middle]) / 2.0),
    }
}

pub fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let n = x.len().min(y.len()) as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        xx += (x - mean_x).powi(2);
        yy += (y - mean_y).powi(2);
        xy += (x - mean_x) * (y - mean_y);
    }
    (xx > 0.0 && yy > 0.0).then(|| (xy / (xx.sqrt() * yy.sqrt())).clamp(-1.0, 1.0))
}

/// Slope and base of the straight line with the least squared error.
pub fn least_squares(x: &[f64], y: &[f64]) -> (f64, f64) {
    let n = x.len() as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let xx: f64 = x.iter().map(|x| (x - mean_x).powi(2)).sum();
    let xy: f64 = x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    (slope, mean_y - slope * mean_x)
}

/// The upper tail of the normal distribution, by a continued fraction for large z and a series for small.
pub fn upper_tail(z: f64) -> f64 {
    if z <= 0.0 {
        return 0.5 + (0.5 - upper_tail_positive(-z));
    }
    upper_tail_positive(z)
}

fn upper_tail_positive(z: f64) -> f64 {
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < 2.5 {
        let (mut term, mut sum) = (z, z);
        for n in 1..60 {
            term *= z * z / (2.0 * f64::from(n) + 1.0);
            sum += term;
        }
        return 0.5 - density * sum;
    }
    let fraction = (1..=40).rev().fold(0.0, |below, n| f64::from(n) / (z + below));
    density / (z + fraction)
}

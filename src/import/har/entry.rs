//! One entry of a HAR as it is written, and what can be said of it alone.

use serde::Deserialize;

use crate::event::base64;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub(super) started_date_time: String,
    #[serde(default)]
    pub(super) time: Option<f64>,
    pub(super) request: Request,
    pub(super) response: Option<Response>,
    #[serde(default)]
    pub(super) timings: Option<Timings>,
    #[serde(default)]
    pub(super) connection: Option<String>,
    #[serde(rename = "_webSocketMessages", default)]
    pub(super) web_socket: Vec<SocketMessage>,
    #[serde(rename = "_error", default)]
    pub(super) error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) url: String,
    #[serde(default)]
    pub(super) headers: Vec<Field>,
    pub(super) post_data: Option<PostData>,
    #[serde(default)]
    pub(super) body_size: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct PostData {
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) encoding: Option<String>,
    #[serde(rename = "_file", default)]
    pub(super) file: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Response {
    #[serde(default)]
    pub(super) status: f64,
    #[serde(default)]
    pub(super) headers: Vec<Field>,
    pub(super) content: Option<Content>,
    #[serde(rename = "_failureText", default)]
    pub(super) failure: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Content {
    #[serde(default)]
    pub(super) size: Option<f64>,
    pub(super) mime_type: Option<String>,
    pub(super) text: Option<String>,
    pub(super) encoding: Option<String>,
    #[serde(rename = "_file", default)]
    pub(super) file: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Deserialize)]
pub(super) struct Timings {
    #[serde(default)]
    pub(super) receive: Option<f64>,
}

#[derive(Deserialize)]
pub(super) struct SocketMessage {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) time: f64,
    #[serde(default)]
    pub(super) opcode: Option<u8>,
    #[serde(default)]
    pub(super) data: String,
}

/// How long the body was that a request must have had and the HAR does not hold.
pub(super) fn missing(request: &Request) -> Option<u64> {
    let held = request.post_data.as_ref().is_some_and(|data| data.text.as_ref().is_some_and(|text| !text.is_empty()));
    let said = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let length = said.and_then(|field| field.value.trim().parse().ok());
    let length = length.or(request.body_size.filter(|size| *size >= 1.0).map(|size| size as u64));
    length.filter(|length| *length > 0 && !held)
}

pub(super) fn session_of(headers: &[Field]) -> Option<&str> {
    headers.iter().find(|field| field.name.eq_ignore_ascii_case("mcp-session-id")).map(|field| field.value.as_str())
}

pub(super) fn is_stream(response: &Response) -> bool {
    let says = |text: &str| text.to_ascii_lowercase().contains("event-stream");
    let typed = |field: &Field| field.name.eq_ignore_ascii_case("content-type") && says(&field.value);
    let mime = response.content.as_ref().and_then(|content| content.mime_type.as_deref());
    response.headers.iter().any(typed) || mime.is_some_and(says)
}

/// The fields of a response whose body has been unpacked already, as those in a HAR have.
pub(super) fn unpacked_fields(headers: &[Field]) -> Vec<(&str, &str)> {
    let packing = ["content-encoding", "transfer-encoding"];
    let mut fields = fields_of(headers);
    fields.retain(|(name, _)| !packing.iter().any(|packing| name.eq_ignore_ascii_case(packing)));
    fields
}

/// Header fields, without the pseudo-fields of HTTP/2.
pub(super) fn fields_of(headers: &[Field]) -> Vec<(&str, &str)> {
    let real = headers.iter().filter(|field| !field.name.starts_with(':'));
    real.map(|field| (field.name.as_str(), field.value.as_str())).collect()
}

pub(super) fn body_of(text: Option<&str>, encoding: Option<&str>) -> Option<Vec<u8>> {
    let text = text?;
    match encoding {
        Some("base64") => base64::decode(text),
        _ => Some(text.as_bytes().to_vec()),
    }
}

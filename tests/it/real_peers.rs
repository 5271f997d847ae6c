//! Real software end to end: the official MCP SDK as client and as server, through a tap.

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};
use rmcp::service::PeerRequestOptions;
use rmcp::transport::TokioChildProcess;
use rpctap::event::{Event, Side};
use rpctap::rpc::{Kind, Mark};

use crate::peer;
use crate::tapped::*;

fn run(
    place: &Place,
    conversation: impl AsyncFnOnce(rmcp::service::RunningService<rmcp::RoleClient, ()>),
) -> Vec<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let command = tokio::process::Command::from(record(&place.store(), &[], &peer::command("mcp")));
        let transport = TokioChildProcess::new(command).expect("rpctap starts");
        conversation(().serve(transport).await.expect("a handshake through the tap")).await;
    });
    last(&place.store()).1
}

fn requests<'a>(events: &'a [Event], method: &str) -> Vec<&'a Event> {
    let is_it = |event: &&Event| {
        event.message().is_some_and(|(_, message)| message.kind == Kind::Request && message.method() == method)
    };
    events.iter().filter(is_it).collect()
}

#[test]
fn a_real_client_and_a_real_server_do_not_notice_the_tap() {
    let place = Place::new();
    let events = run(&place, async |mut client| {
        for _ in 0..20 {
            let result = client.call_tool(CallToolRequestParams::new("add")).await.expect("an answer");
            assert!(format!("{result:?}").contains('3'));
        }
        client.close().await.expect("closed");
    });
    let calls = requests(&events, "tools/call");
    assert_eq!(calls.len(), 20);
    assert!(calls.iter().all(|event| event.message().unwrap().1.marks.text(Mark::Tool) == Some("add")));
    let (store, _) = last(&place.store());
    let rows = store.query("SELECT count(*) FROM exchanges WHERE method = 'tools/call' AND outcome = 'result'");
    assert_eq!(rows.unwrap()[0][0].as_deref(), Some("20"));
    assert_eq!(store.query("SELECT count(*) FROM unanswered").unwrap()[0][0].as_deref(), Some("0"));
    assert!(messages(&events, Side::Server).len() >= 21);
}

#[test]
fn calls_that_are_abandoned_are_orphans_and_calls_that_are_given_up_are_cancelled() {
    let place = Place::new();
    run(&place, async |mut client| {
        let mut held = Vec::new();
        for _ in 0..5 {
            let request = CallToolRequest::new(CallToolRequestParams::new("hang"));
            let request = ClientRequest::CallToolRequest(request);
            let options = PeerRequestOptions::no_options();
            held.push(client.send_cancellable_request(request, options).await.expect("sent"));
        }
        for handle in held.drain(..2) {
            handle.cancel(Some("enough".to_string())).await.expect("sent");
        }
        client.call_tool(CallToolRequestParams::new("add")).await.expect("an answer");
        // The server still works on what hangs, so that the SDK ends the tap by force: all the more must be kept.
        client.close().await.expect("closed");
        drop(held);
    });
    let (store, _) = last(&place.store());
    let unanswered = store.query("SELECT method, tool, count(*) FROM unanswered GROUP BY 1, 2").unwrap();
    let text = |cells: &[&str]| cells.iter().map(|cell| Some(cell.to_string())).collect::<Vec<_>>();
    assert_eq!(unanswered, [text(&["tools/call", "hang", "5"])]);
    let cancels =
        store.query("SELECT target_method, target_tool, fate, count(*) FROM cancels GROUP BY 1, 2, 3").unwrap();
    assert_eq!(cancels, [text(&["tools/call", "hang", "unanswered", "2"])]);
}

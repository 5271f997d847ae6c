//! All rules, one file each: what it is, whom it blames and how grave it is by protocol, and its words.
//!
//! To add one: its file, a `mod` line and a row in [`RULES`], and a conversation each where it fires and where it
//! must stay silent.

mod words;

mod abandoned_request;
mod after_shutdown;
mod answered_after_close;
mod answered_after_retry;
mod batch_not_allowed;
mod before_initialize;
mod cancel_answered;
mod cancel_duplicate;
mod cancel_finished;
mod cancel_forbidden;
mod cancel_ignored;
mod cancel_unanswered;
mod cancel_unknown;
mod cancel_without_id;
mod cancel_wrong_direction;
mod cancelled_unasked;
mod duplicate_key;
mod duplicate_response;
mod error_without_id;
mod fractional_id;
mod framing_fault;
pub mod growing_leak;
mod id_precision_loss;
mod id_reuse_in_flight;
mod id_reused;
mod id_type_mismatch;
mod input_required_not_allowed;
mod invalid_id;
mod lost_in_shutdown;
mod malformed_response;
mod null_id;
mod orphaned_request;
mod overdue_request;
mod peer_died;
mod progress_after_close;
mod progress_never_ended;
mod progress_not_increasing;
mod progress_token_reuse;
mod progress_unknown;
mod reply_to_notification;
mod response_unknown_id;
pub mod session_never_ended;
mod stopped_otherwise;
mod stream_after_final;
mod stream_ended_unanswered;
mod stream_left_open;
mod subscription_unacknowledged;
mod task_cancel_ignored;
mod task_forgotten;
mod task_illegal_state;
mod task_not_collected;
mod task_not_declared;
mod task_parked;
mod task_stuck;
mod task_unknown;
mod unreadable_message;
mod wrong_direction;

use super::Rule;

/// In the order of `rpctap rules`.
pub const RULES: &[&Rule] = &[
    &orphaned_request::RULE,
    &abandoned_request::RULE,
    &answered_after_close::RULE,
    &overdue_request::RULE,
    &lost_in_shutdown::RULE,
    &peer_died::RULE,
    &stream_ended_unanswered::RULE,
    &growing_leak::RULE,
    &cancel_unanswered::RULE,
    &cancel_answered::RULE,
    &cancel_ignored::RULE,
    &cancel_unknown::RULE,
    &cancel_finished::RULE,
    &cancel_forbidden::RULE,
    &cancel_wrong_direction::RULE,
    &cancel_duplicate::RULE,
    &cancel_without_id::RULE,
    &task_forgotten::RULE,
    &task_not_collected::RULE,
    &task_stuck::RULE,
    &task_parked::RULE,
    &task_cancel_ignored::RULE,
    &progress_never_ended::RULE,
    &stream_left_open::RULE,
    &session_never_ended::RULE,
    &duplicate_response::RULE,
    &response_unknown_id::RULE,
    &id_type_mismatch::RULE,
    &id_precision_loss::RULE,
    &id_reuse_in_flight::RULE,
    &id_reused::RULE,
    &invalid_id::RULE,
    &null_id::RULE,
    &fractional_id::RULE,
    &answered_after_retry::RULE,
    &progress_after_close::RULE,
    &progress_unknown::RULE,
    &progress_token_reuse::RULE,
    &progress_not_increasing::RULE,
    &wrong_direction::RULE,
    &before_initialize::RULE,
    &after_shutdown::RULE,
    &reply_to_notification::RULE,
    &batch_not_allowed::RULE,
    &malformed_response::RULE,
    &duplicate_key::RULE,
    &cancelled_unasked::RULE,
    &task_illegal_state::RULE,
    &task_not_declared::RULE,
    &task_unknown::RULE,
    &input_required_not_allowed::RULE,
    &subscription_unacknowledged::RULE,
    &stopped_otherwise::RULE,
    &stream_after_final::RULE,
    &unreadable_message::RULE,
    &framing_fault::RULE,
    &error_without_id::RULE,
];

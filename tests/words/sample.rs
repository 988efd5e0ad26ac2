// What `check` finds in Rust: comments and strings, not names.
/// Nobody reads this; a skin of kinship is fine, kin is not.
fn tells(told: &str) -> String {
    // `Nobody` is code. A sentence that goes on: it is held
    // against the list, by turns.
    let wants = 'x'; // there is no file; this is no file; it is no longer here
    format!("{wants} shall
{told}: a name that cannot be; a name that cannot be read", )
}
/* Whoever
   reads. */
const RAW: &str = r#"Wants=network.target lives in multi-user.target.wants and "lacks" x"#;
const LIFE: &'static str = "not 'anew'"; // 'anew'

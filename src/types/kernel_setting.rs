//! Settings of the Linux kernel in `/proc/sys`.

use super::{InvalidValue, line, text_value};

/// The name of a setting as in sysctl.d, for example `net.ipv4.ip_forward` or `net/ipv4/conf/eth0.5/rp_filter`
/// (<https://www.freedesktop.org/software/systemd/man/latest/sysctl.d.html#Configuration%20Format>). Patterns and the
/// prefix `-` are not accepted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelSetting(String);

/// The value of a setting: at most 4096 characters in one line. It may be empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelValue(String);

impl KernelSetting {
    /// Parses a name of at least two parts of letters, digits, `_`, `-` and `:`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        let part = |part: &str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b':');
            !part.is_empty() && !part.starts_with('-') && part.bytes().all(plain)
        };
        let parts: Vec<&str> = text.split(['.', '/']).collect();
        if (2..=32).contains(&parts.len()) && text.len() <= 255 && parts.into_iter().all(part) {
            return Ok(Self(text.to_owned()));
        }
        let reason = "expected a name in /proc/sys, as in net.ipv4.ip_forward";
        Err(InvalidValue::new("kernel setting", text, reason))
    }
}

impl KernelValue {
    /// Parses a value.
    ///
    /// # Errors
    /// The text has several lines, control characters, or more than 4096 characters.
    pub fn parse(text: &str) -> Result<Self, InvalidValue> {
        line::check(text)
            .map(|()| Self(text.to_owned()))
            .map_err(|reason| InvalidValue::new("value", text, reason))
    }
}

text_value!(KernelSetting);
text_value!(KernelValue);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stay_below_proc_sys() {
        for good in [
            "kernel.panic",
            "net.ipv4.conf.eth0/100.rp_filter",
            "net/ipv4/conf/eth0.100/rp_filter",
            "fs.inotify.max_user_watches",
        ] {
            assert!(KernelSetting::parse(good).is_ok(), "{good}");
        }
        for wrong in [
            "",
            "panic",
            "kernel.panic\nkernel.core_pattern",
            "kernel..panic",
            "../../etc/passwd",
            "/proc/sys/kernel/panic",
            "-kernel.panic",
            "net.ipv4.conf.*.rp_filter",
            "kernel.panic = 1",
            "a.b;reboot",
        ] {
            assert!(KernelSetting::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_have_one_line() {
        for good in ["1", "", "4096 131072 6291456", "|/usr/lib/core %p"] {
            assert!(KernelValue::parse(good).is_ok(), "{good}");
        }
        assert!(KernelValue::parse("1\nkernel.core_pattern = |/tmp/x").is_err());
    }
}

//! The loopback interface of a program's network, and a server on it.

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use serde::{Deserialize, Serialize};

/// Timeout for the request of a client, which may send nothing.
const REQUEST_WAIT: Duration = Duration::from_secs(5);
/// `RTM_NEWLINK` (rtnetlink(7)).
const NEW_LINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK` (netlink(7)).
const REQUEST_AND_ACKNOWLEDGE: u16 = 5;
/// `NLMSG_ERROR`, which is also an acknowledgement with the error 0.
const ERROR: u16 = 2;
/// The loopback interface is the first one of a network namespace.
const LOOPBACK: i32 = 1;
/// `IFF_UP`.
const UP: u32 = 1;
/// Size of `nlmsghdr` and of `ifinfomsg`, in bytes.
const HEADER: usize = 16;

/// A server in the program's network: it answers every HTTP request on loopback with the same JSON document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoopbackAnswer {
    pub port: u16,
    /// The body of the response.
    pub json: String,
}

impl LoopbackAnswer {
    /// Starts the server; it ends with this process.
    pub(crate) fn serve(self) -> io::Result<()> {
        let listener = TcpListener::bind(("127.0.0.1", self.port))?;
        std::thread::Builder::new().spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.set_read_timeout(Some(REQUEST_WAIT));
                let mut request = [0; 2048];
                // A client that breaks the connection gets no answer.
                if stream.read(&mut request).is_ok() {
                    let _ = stream.write_all(self.response().as_bytes());
                }
            }
        })?;
        Ok(())
    }

    fn response(&self) -> String {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
            self.json.len(),
            self.json
        )
    }
}

/// Activates the loopback interface, as `ip link set lo up` does.
pub(crate) fn activate() -> io::Result<()> {
    let kind = (SockType::Raw, SockFlag::SOCK_CLOEXEC);
    let route = SockProtocol::NetlinkRoute;
    let socket = socket(AddressFamily::Netlink, kind.0, kind.1, route)?;
    let kernel = NetlinkAddr::new(0, 0);
    sendto(socket.as_raw_fd(), &request(), &kernel, MsgFlags::empty())?;
    let mut answer = [0; 256];
    let count = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    acknowledged(&answer[..count])
}

/// Returns an `nlmsghdr` and an `ifinfomsg` that sets `IFF_UP`.
fn request() -> Vec<u8> {
    let mut message = Vec::with_capacity(2 * HEADER);
    message.extend((2 * HEADER as u32).to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    // Sequence number and sender.
    message.extend([0; 8]);
    // Family, padding and type.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    // The flags and the mask of changed flags.
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message
}

fn acknowledged(answer: &[u8]) -> io::Result<()> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok());
    let code = answer.get(HEADER..HEADER + 4);
    let code = code.and_then(|bytes| bytes.try_into().ok());
    match (kind.map(u16::from_ne_bytes), code.map(i32::from_ne_bytes)) {
        (Some(ERROR), Some(0)) => Ok(()),
        (Some(ERROR), Some(code)) => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

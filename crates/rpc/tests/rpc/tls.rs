//! TLS, with certificates made here.

use std::path::Path;

use firesteel_conf::Conf;
use firesteel_rpc::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::stage::*;
use crate::streams::Library;

/// An authority in `directory`, with a certificate of its own for `host`.
fn certify(directory: &Path, host: &str) {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([host.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
    write("ca.pem", authority.as_ref().pem());
    write("cert.pem", certificate.pem());
    write("key.pem", key.serialize_pem());
}

fn conf(directory: &Path, files: &[(&str, &str)]) -> Conf {
    let mut conf = Conf::new();
    conf.set("spark.ssl.enabled", true);
    for (key, file) in files {
        conf.set(format!("spark.ssl.{key}"), directory.join(file).display());
    }
    conf
}

const ALL: [(&str, &str); 3] =
    [("trustStore", "ca.pem"), ("rpc.certChain", "cert.pem"), ("privateKey", "key.pem")];

fn load(conf: &Conf) -> Result<RpcOptions, SetupError> {
    RpcOptions::from_conf(conf, |_| None)
}

fn both(directory: &Path) -> RpcOptions {
    let mut conf = conf(directory, &ALL);
    conf.set("spark.authenticate", true).set("spark.authenticate.secret", "beside the certificate");
    RpcOptions { shutdown_timeout: options().shutdown_timeout, ..load(&conf).unwrap() }
}

#[test]
fn messages_and_streams_go_over_tls_beside_the_secret() {
    let directory = tempfile::tempdir().unwrap();
    certify(directory.path(), "127.0.0.1");
    run(async {
        let library = Library::open(5_000_000, both(directory.path())).await;
        let client = RpcEnv::client(both(directory.path()));
        let endpoint = client.lookup::<Ask>(&library.server.address()).await.unwrap();
        let blob = endpoint.ask(Ask::Blob(vec![1; 10 << 20])).await.unwrap();
        assert_eq!(blob, Answer::Number(10 << 20));
        let called = endpoint.ask(Ask::Make(1 << 20)).await.unwrap();
        assert_eq!(called, Answer::Bytes(vec![7; 1 << 20]));
        library.check(&client).await;
        let short =
            client.streams().read(&library.server.rpc_address(), "too long", u64::MAX).await;
        assert!(matches!(short, Err(StreamError::Failed { .. })), "{short:?}");
        client.shutdown().await;
        library.server.env.shutdown().await;
        assert_eq!((client.task_count(), library.server.env.task_count()), (0, 0));
    });
}

#[test]
fn certificates_of_strangers_for_other_hosts_and_no_tls_at_all_are_refused() {
    let [ours, strangers, other_host] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    certify(ours.path(), "127.0.0.1");
    certify(strangers.path(), "127.0.0.1");
    certify(other_host.path(), "example.org");
    run(async {
        let refused = async |server: RpcOptions, client: RpcOptions| {
            let server = TestServer::open(server).await;
            let client = RpcEnv::client(client);
            let error = client.lookup::<Ask>(&server.address()).await.unwrap_err();
            assert!(matches!(error, RpcError::Handshake { .. }), "{error}");
            assert!(error.is_lasting(), "{error}");
            server.diary.wait_for("start", 1).await;
            assert_eq!(server.diary.lines(), ["start Scribe"]);
            error.to_string()
        };
        let stranger = refused(both(strangers.path()), both(ours.path())).await;
        assert!(stranger.contains("TLS failed"), "{stranger}");
        let other = refused(both(other_host.path()), both(other_host.path())).await;
        assert!(other.contains("names this host"), "{other}");
        let plain = refused(both(ours.path()), with_secret("beside the certificate")).await;
        assert!(plain.contains("spark.ssl.rpc.enabled"), "{plain}");
        let plain = refused(with_secret("beside the certificate"), both(ours.path())).await;
        assert!(plain.contains("TLS failed"), "{plain}");
        let plain = refused(options(), both(ours.path())).await;
        assert!(plain.contains("this side speaks TLS and the other does not"), "{plain}");
        let mut wrong = both(ours.path());
        wrong.authenticate_as(Identity::new(DEFAULT_IDENTITY, Secret::generate()).unwrap());
        let wrong = refused(both(ours.path()), wrong).await;
        assert!(wrong.contains("refused the secret"), "{wrong}");
    });
}

#[test]
fn files_that_are_missing_or_wrong_are_named_with_their_key() {
    let directory = tempfile::tempdir().unwrap();
    certify(directory.path(), "127.0.0.1");
    std::fs::write(directory.path().join("java.jks"), "binary").unwrap();
    let refused =
        |files: &[(&str, &str)]| load(&conf(directory.path(), files)).unwrap_err().to_string();
    assert!(refused(&[]).contains("spark.ssl.rpc.trustStore is not set"));
    assert!(refused(&ALL[..2]).contains("spark.ssl.rpc.privateKey is not set"));
    assert!(refused(&[ALL[0], ALL[2]]).contains("spark.ssl.rpc.certChain is not set"));
    assert!(refused(&[("trustStore", "java.jks")]).contains("not a Java key store"));
    assert!(refused(&[("trustStore", "nothing.pem")]).contains("nothing.pem"));
    let swapped = [ALL[0], ("certChain", "cert.pem"), ("privateKey", "ca.pem")];
    assert!(refused(&swapped).contains("no private key"));
    run(async {
        let only_dials = load(&conf(directory.path(), &ALL[..1])).unwrap();
        let refused = RpcEnv::server(only_dials, BindTo::loopback()).await.unwrap_err();
        assert!(refused.to_string().contains("spark.ssl.rpc.certChain"), "{refused}");
    });
}

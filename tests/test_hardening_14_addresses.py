"""How private an address is: the one rule for redirects, in all the forms of an address."""

import pytest

from holdfast.protocol.host_privacy import MACHINE, METADATA, PRIVATE, WORLD, privacy

LEVELS = {
    WORLD: [
        "ipfs.io",
        "ipfs.io.",
        "b\xfccher.example",
        "8.8.8.8",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",  # how a network of IPv6 alone reaches the world
    ],
    PRIVATE: [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "fc00::1",
        "fd00::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:10.0.0.1",
        "::10.0.0.1",
        "::ffff:0:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::808:808",  # translated in a private network, whatever it is
        "2002:a00:1::1",
        "2002:808:808::1",
        "intranet",
        "printer.local",
        "router.home.arpa",
        "db.internal",
    ],
    MACHINE: [
        "localhost",
        "LOCALHOST.",
        "sub.localhost",
        "loc%61lhost",
        "\uff4cocalhost",  # a fullwidth letter
        "\uff11\uff12\uff17.\uff10.\uff10.\uff11",  # and digits
        "127\u30020\u30020\u30021",  # other dots
        "127.0.0.1",
        "127.255.0.1",
        "0.0.0.0",  # noqa: S104 - nothing is bound
        "0.1.2.3",
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::127.0.0.1",
        "2002:7f00:1::1",
        "2606:4700::5efe:127.0.0.1",
    ],
    METADATA: [
        "169.254.169.254",
        "192.0.0.192",
        "100.100.100.200",
        "168.63.129.16",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "::ffff:a9fe:a9fe",
        "::ffff:192.0.0.192",
        "::169.254.169.254",
        "::ffff:0:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:a9fe:a9:fe00::",
        "2002:a9fe:a9fe::",
        "2001:0:a9fe:a9fe::1",
        "2001:0:808:808::5601:5601",
        "2852039166",
        "0xa9fea9fe",
        "169.254.43518",
        "127.1",
        "0",
    ],
}


@pytest.mark.parametrize(
    ("host", "level"), [(host, level) for level, hosts in LEVELS.items() for host in hosts]
)
def test_every_form_of_an_address_has_its_privacy(host, level):
    assert privacy(host) == level

"""The libraries beyond strings and lists: cel-go's `math`, `sets` and `regex`, Kubernetes' `ip`, `cidr`, `url` and `semver`."""

from __future__ import annotations

import pytest

from renderer.cel import TypeValue, UInt, evaluate
from renderer.errors import ExpressionError

VALUES: list[tuple[str, object]] = [
    # math
    ("math.greatest(1)", 1),
    ("math.greatest(1, 2.5, 2u)", 2.5),
    ("math.greatest([1u, 3u])", UInt(3)),
    ("math.greatest(1, 1.0)", 1),
    ("math.least(1.0, 1)", 1.0),
    ("math.least([-1, 2])", -1),
    ("math.ceil(1.2)", 2.0),
    ("math.floor(-1.2)", -2.0),
    ("math.trunc(-1.9)", -1.0),
    ("math.round(-2.5)", -3.0),
    ("math.round(0.49999999999999994)", 0.0),
    ("math.ceil(1.0 / 0.0)", float("inf")),
    ("[math.round(-0.4), math.ceil(-0.5), math.trunc(-0.0)].map(x, 1.0 / x)", [-float("inf")] * 3),
    ("math.sqrt(9)", 3.0),
    ("math.isNaN(math.sqrt(-1.0))", True),
    ("math.isInf(-1.0 / 0.0) && !math.isFinite(1.0 / 0.0)", True),
    ("math.abs(-3)", 3),
    ("math.abs(-3.5)", 3.5),
    ("math.sign(-3)", -1),
    ("math.sign(3u)", UInt(1)),
    ("math.sign(-0.5)", -1.0),
    ("math.bitAnd(6, 3)", 2),
    ("math.bitOr(6u, 3u)", UInt(7)),
    ("math.bitXor(-1, 1)", -2),
    ("math.bitNot(1)", -2),
    ("math.bitNot(1u)", UInt(2**64 - 2)),
    ("math.bitShiftLeft(1, 63)", -(2**63)),
    ("math.bitShiftLeft(1, 64)", 0),
    ("math.bitShiftRight(-1024, 3)", 2305843009213693824),
    ("math.bitShiftRight(1024u, 3)", UInt(128)),
    # sets
    ("sets.contains([1, 2.0, 3u], [1.0, 2u, 3])", True),
    ("sets.contains([], [1])", False),
    ("sets.equivalent([1], [1u, 1.0])", True),
    ("sets.intersects([[1], [2, 3]], [[1, 2], [2, 3.0]])", True),
    ("sets.intersects([1], [])", False),
    # regex
    (r"regex.replace('orders-7', '([a-z]+)-([0-9]+)', r'\2-\1')", "7-orders"),
    ("regex.replace('a-b-c', '-', '.', 1)", "a.b-c"),
    ("regex.replace('a-b', '-', '.', 0)", "a-b"),
    ("regex.extract('id:12', 'id:([0-9]+)').value()", "12"),
    ("regex.extract('x', 'y').hasValue()", False),
    ("regex.extractAll('id:1, id:2', 'id:([0-9])')", ["1", "2"]),
    ("'12 abc 3'.findAll('[0-9]*')", ["12", "", "", "", "", "3"]),
    # ip and cidr
    ("ip('10.0.0.1').family()", 4),
    ("ip('2001:db8::1').family()", 6),
    ("string(ip('2001:DB8:0:0::1'))", "2001:db8::1"),
    ("ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')", True),
    ("isIP('10.0.0.1') && !isIP('10.0.0.01') && !isIP('::ffff:10.0.0.1') && !isIP('fe80::1%eth0')", True),
    ("ip('10.0.0.1') == ip('10.0.0.1') && ip('10.0.0.1') != ip('10.0.0.2')", True),
    ("type(ip('::1'))", TypeValue("net.IP")),
    ("type(cidr('::1/128')) == net.CIDR", True),
    ("ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified()", True),
    ("ip('224.0.0.5').isLinkLocalMulticast() && !ip('224.0.1.5').isLinkLocalMulticast()", True),
    ("ip('ff02::1').isLinkLocalMulticast() && ip('fe80::1').isLinkLocalUnicast()", True),
    ("ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()", True),
    ("cidr('10.1.0.0/16').containsIP('10.1.2.3') && !cidr('10.1.0.0/16').containsIP(ip('10.2.0.0'))", True),
    ("cidr('10.1.0.0/16').containsIP('::1')", False),
    ("cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))", True),
    ("string(cidr('192.168.1.7/24').masked())", "192.168.1.0/24"),
    ("string(cidr('192.168.1.7/24').ip())", "192.168.1.7"),
    ("cidr('192.168.1.7/24') == cidr('192.168.1.7/24').masked()", False),
    ("cidr('2001:db8::/32').prefixLength()", 32),
    ("isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0/08') && !isCIDR('10.0.0.0')", True),
    # url
    ("url('https://u:p@example.com:80/a?x=1#f').getScheme()", "https"),
    ("url('HTTPS://u:p@example.com:80/a?x=1#f').getHost()", "example.com:80"),
    ("url('https://u:p@example.com:80/a?x=1#f').getHostname()", "example.com"),
    ("url('https://example.com:80/').getPort()", "80"),
    ("url('https://example.com/').getPort()", ""),
    ("url('https://[::1]:80/').getHost()", "[::1]:80"),
    ("url('https://[::1]:80/').getHostname()", "::1"),
    ("url('https://example.com/with space/').getEscapedPath()", "/with%20space/"),
    ("url('https://example.com/a%20b').getEscapedPath()", "/a%20b"),
    ("url('https://example.com').getEscapedPath()", ""),
    ("url('/path').getHost()", ""),
    ("url('https://example.com/?k=a&l=b&l=c+d%21').getQuery()", {"k": ["a"], "l": ["b", "c d!"]}),
    ("url('https://example.com/?').getQuery()", {}),
    ("url('https://example.com/') == url('https://example.com/')", True),
    ("isURL('/a') && isURL('mailto:a@example.com') && !isURL('../a') && !isURL('a') && !isURL('')", True),
    ("isURL('https://a:b:c/') || isURL('https://[::1/') || isURL('https://a b/') || isURL('/%zz')", False),
    # semver
    ("semver('1.2.3').major() * 100 + semver('1.2.3').minor() * 10 + semver('1.2.3').patch()", 123),
    ("semver('1.2.3-rc.2').isLessThan(semver('1.2.3-rc.10'))", True),
    ("semver('1.2.3-rc.10').isLessThan(semver('1.2.3-rc.x'))", True),
    ("semver('1.2.3-rc').isLessThan(semver('1.2.3'))", True),
    ("semver('1.10.0').isGreaterThan(semver('1.9.9'))", True),
    ("semver('1.2.3+a').compareTo(semver('1.2.3+b'))", 0),
    ("semver('1.2.3+a') == semver('1.2.3+b')", True),
    ("semver('v01.2', true) == semver('1.2.0')", True),
    ("isSemver('1.2') || isSemver('v1.2.3') || isSemver('1.2.03') || isSemver('1.2.3-')", False),
    ("isSemver('v1', true) && !isSemver('1.2-rc', true)", True),
    # format
    ("format.dns1123Label().validate('orders-db').hasValue()", False),
    (
        "format.dns1123Label().validate('Orders').value()",
        ["must be lower case letters, digits and -, with a letter or digit at both ends"],
    ),
    ("format.named('dns1123Subdomain').value().validate('a.b-c.d').hasValue()", False),
    ("format.named('nothing').hasValue()", False),
    ("format.dns1035Label().validate('1a').hasValue() && !format.dns1123Label().validate('1a').hasValue()", True),
    ("format.dns1123LabelPrefix().validate('orders-').hasValue()", False),
    ("format.qualifiedName().validate('example.com/Name_1.x').hasValue()", False),
    ("format.qualifiedName().validate('Example.com/x').hasValue()", True),
    ("format.labelValue().validate('').hasValue() || format.labelValue().validate('A.b-c_1').hasValue()", False),
    (
        "['uri', 'uuid', 'byte', 'date', 'datetime'].map(f, format.named(f).value().validate('x').hasValue())",
        [True] * 5,
    ),
    ("format.uri().validate('https://example.com').hasValue() || format.byte().validate('aGk=').hasValue()", False),
    ("format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()", False),
    (
        "format.date().validate('2026-01-31').hasValue() || format.datetime().validate('2026-01-31t08:00:00z').hasValue()",
        False,
    ),
    ("format.date().validate('2026-02-31').hasValue()", True),
    # quantity
    ("sign(quantity('-1'))", -1),
    ("quantity('1e999').asApproximateFloat()", float("inf")),
    # lists and optionals
    ("[1, 2].first().value() + [1, 2].last().value()", 3),
    ("[].first().hasValue() || [].last().hasValue()", False),
    ("[optional.of(1), optional.none()].unwrapOpt()", [1]),
    ("optional.unwrap([optional.of(1), optional.none()])", [1]),
    # protobuf's well-known types
    ("google.protobuf.Int32Value{value: -3} + 1", -2),
    ("google.protobuf.UInt64Value{}", UInt(0)),
    ("google.protobuf.FloatValue{value: 3.1}", 3.0999999046325684),
    ("google.protobuf.FloatValue{value: 1e55}", float("inf")),
    ("google.protobuf.StringValue{?value: optional.none()}", ""),
    (".google.protobuf.BytesValue{value: b'a'}", b"a"),
    ("google.protobuf.Struct{fields: {'a': [1, true, 'x', null]}}", {"a": [1.0, True, "x", None]}),
    (
        "google.protobuf.ListValue{values: [9007199254740993, b'abc', duration('1m')]}",
        ["9007199254740993", "YWJj", "60s"],
    ),
    ("google.protobuf.Value{number_value: 1.5}", 1.5),
    ("google.protobuf.Value{null_value: google.protobuf.NullValue.NULL_VALUE} == google.protobuf.Value{}", True),
    ("google.protobuf.Timestamp{seconds: 1} - google.protobuf.Duration{seconds: 1} == timestamp(0)", True),
    ("type(timestamp(0)) == google.protobuf.Timestamp", True),
    # runtime
    (
        "runtime.newCondition({type: 'Ready', status: 'T' + 'rue'})",
        {"type": "Ready", "status": "True", "reason": "", "message": ""},
    ),
    (
        "runtime.condition({'status': {'conditions': [{'type': 'A'}, {'type': 'B', 'status': 'False'}]}}, 'B').status",
        "False",
    ),
    ("runtime.condition({}, 'B')", {"type": "", "status": "", "reason": "", "message": ""}),
    ("['A', 'B'].map(t, runtime.newCondition({type: t, status: 'Unknown', message: t})).map(c, c.message)", ["A", "B"]),
    # bind
    ("cel.bind(x, 1 / 0, x == 1 || true)", True),
    ("cel.bind(x, 1 / 0, 7)", 7),
    ("cel.block([1, cel.index(0) + 1, 1 / 0], cel.index(1) * 10)", 20),
    ("[1, 2].map(cel.iterVar(0, 0), cel.iterVar(0, 0) + 1)", [2, 3]),
]


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_value(text: str, value: object) -> None:
    found = evaluate(text, {})
    assert found == value
    assert type(found) is type(value)


FAILURES = [
    ("math.greatest('a')", "no such overload: math.greatest(string)"),
    ("math.greatest(1, 'a')", "math.greatest takes numbers, not string"),
    ("math.least([])", "math.least of an empty list"),
    ("math.greatest()", "math.greatest() takes 1 argument, not 0"),
    ("math.abs(-9223372036854775808)", "integer overflow"),
    ("math.ceil(1)", "no such overload: math.ceil(int)"),
    ("math.bitShiftLeft(1, -1)", "cannot shift by -1 bits"),
    ("math.bitAnd(1, 1u)", "no such overload: math.bitAnd(int, uint)"),
    (r"regex.replace('abc', 'b', r'\1')", r"regex.replace: \1 in the replacement is not a group"),
    ("regex.extract('ab', '(a)(b)')", "the regular expression '(a)(b)' has more than one group"),
    ("ip('10.0.0.256')", "'10.0.0.256' is not an IP address"),
    ("cidr('10.0.0.0/8').containsIP('x')", "'x' is not an IP address"),
    ("cidr('10.0.0.0')", "'10.0.0.0' is not a CIDR range"),
    ("url('a b')", "'a b' is not a URL: it is not absolute and does not begin with /"),
    ("url('https://a:b/')", "'https://a:b/' is not a URL: invalid port ':b'"),
    ("semver('1.2')", "'1.2' is not a semantic version such as 1.2.3; semver(text, true) also reads v1.2"),
    ("lists.range(-1)", "lists.range: -1 is negative"),
    ("cel.bind(x, 1 / 0, x + 1)", "division by zero"),
    ("google.protobuf.Int32Value{value: 2147483648}", "2147483648 is out of range"),
    ("google.protobuf.Int32Value{value: 1u}", "google.protobuf.Int32Value.value must be of type int, not uint"),
    ("google.protobuf.Int32Value{val: 1}", "google.protobuf.Int32Value has no field 'val', only value"),
    ("google.protobuf.Duration{seconds: 1, nanos: -1}", "google.protobuf.Duration: 1 seconds and -1 nanos"),
    ("google.protobuf.Struct{fields: {1: 2}}", "google.protobuf.Struct: the keys must be strings"),
    (
        "runtime.newCondition({type: 'A', status: 'yes'})",
        "runtime.newCondition: status must be True, False, Unknown, not",
    ),
    ("runtime.newCondition({type: '', status: 'True'})", "runtime.newCondition: type must not be empty"),
    ("runtime.newCondition({type: 1, status: 'True'})", "runtime.newCondition: type must be a string, not int"),
    ("runtime.newCondition({type: 'A'})", "runtime.newCondition() lacks status; add status"),
    (
        "runtime.newCondition({'type': 'A', status: 'True'})",
        "runtime.newCondition(): the keys are type, status, reason, ",
    ),
    (
        "runtime.newCondition({type: 'A', status: 'True', kind: 'x'})",
        "runtime.newCondition(): the keys are type, status, ",
    ),
    (
        "runtime.newCondition({type: 'A', status: 'True', type: 'B'})",
        "runtime.newCondition(): two keys are equal; keep one",
    ),
    ("runtime.newCondition(1)", "runtime.newCondition() takes a map {type: ..., status: ...,"),
    ("runtime.condition({'status': 1}, 'A')", "runtime.condition: obj.status must be of type map, not int"),
    ("google.protobuf.Any{}", "unknown message type google.protobuf.Any"),
]


@pytest.mark.parametrize(("text", "message"), FAILURES, ids=[text for text, _ in FAILURES])
def test_failure(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, {})
    assert caught.value.message.startswith(message)

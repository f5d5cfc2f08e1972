/**
 * Known attempts to bypass proxies, each with requests that try it and their results. The
 * table in README.md in this folder has a row for each, and a test compares the two.
 */

/** What the rules of the tested proxy allow: every public name, also every address, or only two hosts. */
export type Policy = 'names' | 'everything' | 'narrow'

export interface Refused {
  readonly trick: string
  readonly policy: Policy
  readonly status: 400 | 403 | 404 | 501 | 508
  /** The word of the refusal in the log. */
  readonly reason: string
  /** Request targets of CONNECT (authority-form) and of GET (absolute-form), bytes as latin1. */
  readonly targets: readonly string[]
}

export const POLICIES: Readonly<Record<Policy, string>> = {
  names:
    'rules: { web: { hosts: ["*"], ports: [any] } }\ndeny: { hosts: [denied.example, "*.denied.example"] }',
  everything: 'rules: { every: { hosts: ["*", "0.0.0.0/0", "::/0"], ports: [any] } }',
  narrow: 'rules: { two: { hosts: [allowed.example, "*.wild.example"] } }',
}

/** The addresses of names. Only these and public names may be looked up. */
export const ANSWERS: Readonly<Record<string, readonly string[]>> = {
  'private.example': ['10.0.0.1'],
  'metadata.example': ['169.254.169.254'],
  'wire-server.example': ['168.63.129.16'],
  'loopback6.example': ['::1'],
  'unspecified.example': ['0.0.0.0'],
  'unspecified6.example': ['::'],
  'mapped.example': ['::ffff:10.0.0.1'],
  'compatible.example': ['::10.0.0.1'],
  'nat64.example': ['64:ff9b::a9fe:a9fe'],
  'nat64-local.example': ['64:ff9b:1::a00:1'],
  'sixtofour.example': ['2002:a00:1::1'],
  'teredo.example': ['2001:0:a00:1::1'],
  'isatap.example': ['2600::5efe:a00:1'],
  'zone.example': ['fe80::1%lo'],
  'mixed.example': ['93.184.216.34', '127.0.0.1'],
  'mixed6.example': ['93.184.216.34', 'fd00:ec2::254'],
  'unallocated.example': ['4000::1'],
}

/** The bytes of UTF-8 text, as latin1. */
const utf8 = (text: string): string => Buffer.from(text).toString('latin1')

const connect = (...hosts: string[]): string[] => hosts.map(host => `${host}:443`)
const http = (...authorities: string[]): string[] => authorities.map(authority => `http://${authority}/`)

export const REFUSED: readonly Refused[] = [
  {
    trick: 'IPv4 in octal, in hexadecimal, as one number, or with fewer than four parts',
    policy: 'everything',
    status: 400,
    reason: 'malformed',
    targets: [
      ...connect('0177.0.0.1', '2130706433', '0x7f.0.0.1', '0x7f000001', '127.1', '127.0.1', '017700000001'),
      ...connect('127.0.0.01', '0', '1.2.3.256', '1.2.3.4.5', 'example.127', '0x7f.1'),
      ...http('0177.0.0.1', '2130706433', '0x7f.1', '127.1', '127.0.0.01', '0x7f000001:80'),
    ],
  },
  {
    trick: 'full-width digits, circled letters and ideographic full stops',
    policy: 'everything',
    status: 400,
    reason: 'malformed',
    targets: [
      ...connect(
        utf8('１２７.0.0.1'),
        utf8('ⓛocalhost'),
        utf8('127。0。0。1'),
        utf8('local\u200dhost'),
        utf8('bücher.example'),
      ),
      ...http(utf8('①②⑦.0.0.1'), utf8('127｡0｡0｡1')),
    ],
  },
  {
    trick: 'NUL, control bytes, spaces, backslashes and percent-encoding in a host',
    policy: 'everything',
    status: 400,
    reason: 'malformed',
    targets: [
      ...connect(
        '127.0.0.1\0.example.com',
        'a\t.example',
        'a\x7f.example',
        'a%00.example',
        'loc%61lhost',
        'a\\.example',
      ),
      ...http(
        '127.0.0.1\0.example.com',
        'allowed.example\\.evil.test',
        'loc%61lhost',
        '127.0.0.1%2f.example',
      ),
    ],
  },
  {
    trick: 'zone ids',
    policy: 'everything',
    status: 400,
    reason: 'malformed',
    targets: [
      ...connect('[fe80::1%25lo]', '[fe80::1%lo]', '[::1%1]', '[::1%250]'),
      ...http('[fe80::1%25lo]', '[::1%lo]'),
    ],
  },
  {
    trick: 'brackets without a plain IPv6 address',
    policy: 'everything',
    status: 400,
    reason: 'malformed',
    targets: [
      ...connect('[127.0.0.1]', '[v1.fe80]', '[]', '[::1', '::1', '[::1]x', '[[::1]]', '[localhost]'),
      ...http('[127.0.0.1]', '[v1.a]', '[::1].example'),
    ],
  },
  {
    trick: 'user names and passwords before the host',
    policy: 'narrow',
    status: 400,
    reason: 'malformed',
    targets: [
      ...connect('allowed.example@127.0.0.1', 'allowed.example:443@evil.test', '@allowed.example'),
      ...http('allowed.example@127.0.0.1', 'allowed.example:80@evil.test', 'a:b@allowed.example'),
      ...http('allowed.example#@evil.test', 'evil.test#.allowed.example', 'allowed.example\\@evil.test'),
    ],
  },
  {
    trick: 'ports that overflow, have a sign, or are really another host',
    policy: 'everything',
    status: 400,
    reason: 'malformed',
    targets: [
      ...[
        '65536',
        '65979',
        '4294967739',
        '0',
        '-1',
        '+443',
        ' 443',
        '443 ',
        '0x1bb',
        '4e2',
        '',
        '443:22',
        utf8('４４３'),
      ].map(port => `a.example:${port}`),
      ...['65616', '4294967376', '0', '+80', '80:22'].map(port => `http://a.example:${port}/`),
    ],
  },
  {
    trick: 'no host, or a target in a form that the method does not allow',
    policy: 'everything',
    status: 400,
    reason: 'malformed',
    targets: [':443', '.:443', '*', '/', 'a.example', 'http:///', 'http://:80/', 'http:a.example/'],
  },
  {
    trick: 'schemes other than http',
    policy: 'everything',
    status: 400,
    reason: 'scheme',
    targets: ['file:///etc/passwd', 'gopher://a.example/', 'ftp://a.example/'],
  },
  {
    trick: 'a trailing dot, or capitals, on a denied name',
    policy: 'names',
    status: 403,
    reason: 'deny_host',
    targets: [
      ...connect('denied.example.', 'DENIED.example', 'a.b.denied.EXAMPLE.'),
      ...http('denied.example.', 'Denied.Example:80'),
    ],
  },
  {
    trick: 'empty labels, labels without a letter or digit, names that are too long',
    policy: 'everything',
    status: 400,
    reason: 'malformed',
    targets: [
      ...connect(
        'denied.example..',
        'a..example',
        '.example',
        '-.example',
        '_.example',
        `${'a'.repeat(64)}.example`,
      ),
      ...connect(`${'a.'.repeat(127)}aa`),
      ...http('denied.example..', 'a..example', '_.example'),
    ],
  },
  {
    trick: 'names that only resemble one below a wildcard, or an allowed one',
    policy: 'narrow',
    status: 403,
    reason: 'no_rule',
    targets: [
      ...connect(
        'wild.example',
        'evilwild.example',
        'wild.example.evil.test',
        'a.wild.example.evil.test',
        'x.allowed.example',
      ),
      ...connect(
        'allowed-example',
        'allowed.example.evil.test',
        'notallowed.example',
        'allowed.exampl',
        'xn--allowed-.example',
      ),
      ...http('wild.example', 'evilwild.example', 'a.wild.example.evil.test', 'x.allowed.example'),
    ],
  },
  {
    trick: 'addresses where only names are allowed',
    policy: 'names',
    status: 403,
    reason: 'literal',
    targets: [
      ...connect(
        '93.184.216.34',
        '127.0.0.1',
        '127.0.0.1.',
        '[::1]',
        '[::]',
        '0.0.0.0',
        '169.254.169.254',
        '[::ffff:127.0.0.1]',
      ),
      ...http('169.254.169.254', '[::1]', '0.0.0.0', '[fd00:ec2::254]'),
    ],
  },
  {
    trick: 'localhost, and names below it',
    policy: 'names',
    status: 403,
    reason: 'localhost',
    targets: [
      ...connect('localhost', 'LOCALHOST', 'localhost.', 'a.localhost'),
      ...http('localhost', 'x.localhost'),
    ],
  },
  {
    trick: 'names of a single label, which a resolver may complete to others',
    policy: 'names',
    status: 403,
    reason: 'single_label',
    targets: [...connect('denied', 'DENIED', 'denied.', 'secret'), ...http('denied', 'secret.')],
  },
  {
    trick: 'private, local and metadata addresses where every address is allowed by name',
    policy: 'everything',
    status: 403,
    reason: 'address',
    targets: [
      ...connect(
        '127.0.0.1',
        '127.255.255.254',
        '10.0.0.1',
        '172.16.0.1',
        '192.168.1.1',
        '100.64.0.1',
        '169.254.1.1',
        '0.0.0.0',
      ),
      ...connect(
        '169.254.169.254',
        '168.63.129.16',
        '100.100.100.200',
        '198.18.0.1',
        '224.0.0.1',
        '240.0.0.1',
        '255.255.255.255',
      ),
      ...connect(
        '[::1]',
        '[::]',
        '[fe80::1]',
        '[fec0::1]',
        '[fd00::1]',
        '[fd00:ec2::254]',
        '[ff02::1]',
        '[4000::1]',
        '[5f00::1]',
      ),
      ...http('127.0.0.1', '169.254.169.254', '[::1]', '[fd00::1]', '0.0.0.0'),
    ],
  },
  {
    trick: 'IPv4 inside IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP',
    policy: 'everything',
    status: 403,
    reason: 'address',
    targets: [
      ...connect(
        '[::ffff:127.0.0.1]',
        '[::ffff:7f00:1]',
        '[0:0:0:0:0:ffff:a9fe:a9fe]',
        '[::127.0.0.1]',
        '[::7f00:1]',
      ),
      ...connect(
        '[::ffff:0:127.0.0.1]',
        '[64:ff9b::127.0.0.1]',
        '[64:ff9b::a9fe:a9fe]',
        '[64:ff9b:1::808:808]',
      ),
      ...connect(
        '[2002:7f00:1::]',
        '[2002:808:808::1]',
        '[2001:0:7f00:1::]',
        '[2001::8.8.8.8]',
        '[2600::5efe:7f00:1]',
        '[2600::200:5efe:808:808]',
      ),
      ...http('[::ffff:127.0.0.1]', '[64:ff9b::a00:1]', '[2002:7f00:1::]'),
    ],
  },
  {
    trick: 'names that resolve, by A, AAAA or CNAME, to any of those',
    policy: 'names',
    status: 403,
    reason: 'address',
    targets: [
      ...connect(...Object.keys(ANSWERS).filter(name => !name.startsWith('mixed'))),
      ...http('private.example', 'metadata.example', 'nat64.example', 'isatap.example'),
    ],
  },
  {
    trick: 'answers that mix a public address with another',
    policy: 'names',
    status: 403,
    reason: 'address',
    targets: [...connect('mixed.example', 'mixed6.example'), ...http('mixed.example', 'mixed6.example')],
  },
]

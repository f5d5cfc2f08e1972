import t from 'tap'
import { parseHostPattern, serializeHostPattern } from '../../src/net/host-pattern.js'

const LABEL_63 = 'a'.repeat(63)
/** 253 bytes, the maximum length of a name. */
const LONGEST = `${`${LABEL_63}.`.repeat(3)}${'b'.repeat(61)}`

t.test('distinguishes the kinds of pattern', async t => {
  const table = [
    ['*', 'any', '*'],
    ['example.com', 'exact', 'example.com'],
    ['EXAMPLE.com.', 'exact', 'example.com'],
    ['localhost', 'exact', 'localhost'],
    ['any', 'exact', 'any'],
    ['_dmarc.example.com', 'exact', '_dmarc.example.com'],
    ['*.example.com', 'suffix', '*.example.com'],
    ['*.Example.COM.', 'suffix', '*.example.com'],
    ['*.com', 'suffix', '*.com'],
    ['bücher.example', 'exact', 'xn--bcher-kva.example'],
    ['BÜCHER.Example.', 'exact', 'xn--bcher-kva.example'],
    ['xn--bcher-kva.example', 'exact', 'xn--bcher-kva.example'],
    ['*.bücher.example', 'suffix', '*.xn--bcher-kva.example'],
    ['*.münchen', 'suffix', '*.xn--mnchen-3ya'],
    [LABEL_63, 'exact', LABEL_63],
    [LONGEST, 'exact', LONGEST],
    [`${LONGEST}.`, 'exact', LONGEST],
    [`*.${LONGEST}`, 'suffix', `*.${LONGEST}`],
    [`${'ü'.repeat(57)}.test`, 'exact', `xn--td${'a'.repeat(57)}.test`],
    ['10.4.2.17', 'address', '10.4.2.17'],
    ['10.4.2.17.', 'address', '10.4.2.17'],
    ['::1', 'address', '::1'],
    ['[2001:DB8::0001]', 'address', '2001:db8::1'],
    ['::ffff:1.2.3.4', 'address', '::ffff:1.2.3.4'],
    ['10.0.0.0/8', 'cidr', '10.0.0.0/8'],
    ['2001:db8::/32', 'cidr', '2001:db8::/32'],
    ['::ffff:10.0.0.0/104', 'cidr', '10.0.0.0/8'],
  ] as const
  for (const [text, kind, canonical] of table) {
    const pattern = parseHostPattern(text)
    t.equal(pattern.kind, kind, text)
    t.equal(serializeHostPattern(pattern), canonical, text)
    t.same(
      parseHostPattern(canonical),
      pattern.kind === 'cidr' ? pattern : parseHostPattern(text),
      `${text} again`,
    )
  }
  t.same(parseHostPattern('*.example.com'), { kind: 'suffix', suffix: '.example.com' })
})

t.test('refuses everything else, and says what to write instead', async t => {
  const table: [string, RegExp][] = [
    ['', /expected a host name, "\*\.example\.com", "\*", an IP address or a CIDR, found ""$/],
    ['https://example.com', /a URL; write only its host/],
    ['https://example.com/path', /a URL/],
    ['example.com:443', /with a port; leave it out$/],
    ['example.com:', /with a port/],
    ['[::1]:443', /with a port/],
    ['*:443', /with a port/],
    ['*.example.com:443', /with a port/],
    [
      '*foo.com',
      /where \* is not the whole first label: it would match "otherfoo\.com" and names that nobody has checked; write each name$/,
    ],
    [
      'foo*.example.com',
      /: it would match "fooother\.example\.com" .*; write each name, or "\*\.example\.com" for all names below example\.com$/,
    ],
    ['*foo.example.com', /: it would match "otherfoo\.example\.com" .* for all names below example\.com$/],
    ['a.*.example.com', /: it would match "a\.other\.example\.com" .* for all names below example\.com$/],
    ['a.*.b', /where \* is not/],
    ['foo.*', /where \* is not/],
    ['**', /where \* is not/],
    ['*.', /expected a host name/],
    ['*.*.com', /expected a host name/],
    ['*..com', /expected a host name/],
    ['*.1.2.3.4', /which is below an address; write a CIDR/],
    ['*.[::1]', /below an address/],
    ['*.2.3.4', /expected a host name/],
    [
      '.example.com',
      /, with a leading dot; write "\*\.example\.com" for all names below it, and "example\.com" for itself$/,
    ],
    ['.example.com:443', /with a port/],
    ['..example.com', /expected a host name/],
    ['example..com', /expected a host name/],
    ['exa mple.com', /expected a host name/],
    [' example.com', /expected a host name/],
    ['127.1', /expected a host name/],
    ['0177.0.0.1', /expected a host name/],
    ['2130706433', /expected a host name/],
    ['[1.2.3.4]', /expected a host name/],
    ['fe80::1%eth0', /expected a host name/],
    ['user@example.com', /expected a host name/],
    ['bü\u200bcher.example', /characters that IDNA would replace; write the xn-- form/],
    ['*.bücher。example', /IDNA would replace/],
    ['*.１２７.０.０.１', /IDNA would replace/],
    ['１２７.０.０.１', /IDNA would replace/],
    ['bücher.１', /IDNA would replace/],
    ['bücher.1', /expected a host name/],
    ['bücher..example', /expected a host name/],
    ['.bücher.example', /expected a host name, .* with a leading dot; write "\*\.bücher\.example"/],
    ['bücher.example:443', /with a port/],
    ['https://bücher.example', /a URL/],
    ['*bücher.example', /where \* is not the whole first label/],
    [`${'ü'.repeat(58)}.test`, /expected a host name/],
    [`${LABEL_63}a`, /expected a host name/],
    [`${LONGEST}c`, /expected a host name/],
    [`*.${LONGEST}c`, /expected a host name/],
    ['_', /expected a host name/],
    ['-.example', /expected a host name/],
    ['example.com/path', /, with a path, but paths are not matched; write "example\.com"$/],
    ['github.com/owner/*', /with a path, .* write "github\.com"$/],
    ['*.example.com/', /with a path, .* write "\*\.example\.com"$/],
    ['example.com:8443/path', /with a path, .* write "example\.com"$/],
    ['10.0.0/8', /expected an IP address or a CIDR/],
    ['10.0.0.0/a', /expected a prefix length/],
    ['/path', /expected an IP address or a CIDR/],
    [
      '/^api/',
      /, which looks like a regular expression; write names, and "\*\.example\.com" for all names below one$/,
    ],
    ['/^api.*/', /a regular expression/],
    ['/api/i', /a regular expression/],
    ['^api', /a regular expression/],
    ['example.com$', /a regular expression/],
    ['api\\.example\\.com', /a regular expression/],
    ['(a|b).example.com', /a regular expression/],
    ['[a-z].example.com', /a regular expression/],
    ['10.0.0.0/33', /expected a prefix length/],
    ['10.0.0.1/8', /bits set after the prefix/],
    ['-', /expected a host name/],
    ['.', /expected a host name/],
  ]
  for (const [text, message] of table)
    t.throws(() => parseHostPattern(text), { name: 'RangeError', message }, text)
})

t.test('says what the key expects, and what the file contains', async t => {
  const key = { expected: 'a name', written: '.b', ports: 'put it elsewhere' }
  for (const [text, message] of [
    ['*.', 'expected a name, found ".b"'],
    ['a:1', 'expected a name, found ".b", with a port; put it elsewhere'],
    ['*.1.2.3.4', 'expected a name, found ".b", which is below an address; write a CIDR'],
  ] as const) {
    t.throws(() => parseHostPattern(text, key), { name: 'RangeError', message }, text)
  }
})

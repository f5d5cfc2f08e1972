import t from 'tap'
import { parseInternationalName } from '../../src/net/a-label.js'

t.test('converts labels to A-labels where needed (RFC 5890 §2.3.2.1)', async t => {
  const table = [
    ['bücher.example', 'xn--bcher-kva.example'],
    ['BÜCHER.Example', 'xn--bcher-kva.Example'],
    ['www.bücher.münchen', 'www.xn--bcher-kva.xn--mnchen-3ya'],
    ['straße.example', 'xn--strae-oqa.example'],
    ['日本語.jp', 'xn--wgv71a119e.jp'],
    ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ['example.com', 'example.com'],
    ['bücher.example.', 'xn--bcher-kva.example.'],
  ] as const
  for (const [name, expected] of table) t.equal(parseInternationalName(name), expected, name)
})

t.test('refuses names that would become another name than the visible one', async t => {
  const table = {
    'full-width digits': '１２７.０.０.１',
    'one full-width digit': 'bücher１.example',
    'digits of another script that are mapped': '²bücher.example',
    'full-width letters': 'ｅｘａｍｐｌｅ.com',
    'an ideographic full stop': 'bücher。example',
    'an ideographic full stop between ASCII labels': 'example。com',
    'a half-width ideographic full stop': 'bücher｡example',
    'a full-width full stop': 'bücher．example',
    'a one dot leader': 'bücher․example',
    'a zero-width space': 'bü\u200bcher.example',
    'a zero-width space in ASCII': 'exa\u200bmple.com',
    'a zero-width joiner': 'bü\u200dcher.example',
    'a zero-width non-joiner': 'bü\u200ccher.example',
    'a soft hyphen': 'bü\u00adcher.example',
    'a byte order mark': '\ufeffbücher.example',
    'a direction mark': 'bü\u202echer.example',
    'a label of nothing but a zero-width space': 'a.\u200b.example',
    'a decomposed letter': 'bu\u0308cher.example',
    'a Kelvin sign': '\u212aelvin.example',
    'a Kelvin sign beside a letter that stays': 'ü\u212a.example',
    'a Roman numeral': 'Ⅷ.example',
    'a percent-encoded dot': 'bücher%2eexample',
    'a slash': 'bücher/.example',
    'a tab': 'bü\tcher.example',
    'a space': 'bü cher.example',
    'a combining mark first': '\u0301a.example',
    'a broken A-label': 'xn--bücher.example',
    'a lone surrogate': 'b\ud800cher.example',
  }
  for (const [what, name] of Object.entries(table)) t.equal(parseInternationalName(name), undefined, what)
})

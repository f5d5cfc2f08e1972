import t from 'tap'
import { FieldSection } from '../../src/http/field-section.js'
import type { Fields } from '../../src/http/fields.js'
import { upgradeProtocol as upgradeProtocolOf } from '../../src/http/upgrade.js'

const upgradeProtocol = (fields: Fields, minor: 0 | 1, allowed: readonly string[]) =>
  upgradeProtocolOf(FieldSection.of(fields), minor, allowed)

const ALLOWED = ['websocket', 'foo/2']

t.test('selects the first allowed protocol that is offered, as received (RFC 9110 §7.8)', async t => {
  for (const [offer, protocol] of [
    ['websocket', 'websocket'],
    ['WebSocket', 'WebSocket'],
    ['h2c, websocket', 'websocket'],
    ['Foo/2, websocket', 'Foo/2'],
    ['h2c', undefined],
    ['websocket/13', undefined],
    ['foo', undefined],
    ['', undefined],
  ] as const) {
    t.equal(
      upgradeProtocol(['Upgrade', offer, 'Connection', 'keep-alive, UPGRADE'], 1, ALLOWED),
      protocol,
      offer,
    )
  }
  const lines = ['Upgrade', 'h2c', 'Connection', 'close', 'upgrade', 'websocket', 'connection', 'upgrade']
  t.equal(upgradeProtocol(lines, 1, ALLOWED), 'websocket', 'over several lines')
})

t.test(
  'selects none when Connection does not name Upgrade, in HTTP/1.0, or when none is allowed (RFC 9110 §7.8)',
  async t => {
    const fields = ['Upgrade', 'websocket', 'Connection', 'Upgrade']
    t.equal(upgradeProtocol(fields, 1, ALLOWED), 'websocket')
    t.equal(upgradeProtocol(fields, 0, ALLOWED), undefined)
    t.equal(upgradeProtocol(fields, 1, []), undefined)
    t.equal(upgradeProtocol(['Upgrade', 'websocket'], 1, ALLOWED), undefined)
    t.equal(upgradeProtocol(['Upgrade', 'websocket', 'Connection', 'close'], 1, ALLOWED), undefined)
    t.equal(upgradeProtocol(['Connection', 'upgrade'], 1, ALLOWED), undefined)
  },
)

import t from 'tap'
import { parseConfig } from '../../src/index.js'
import { parseLoggedTarget } from '../../src/advice/log-event.js'
import { isLiftable, isPrivateLiteral, refusalText } from '../../src/advice/refusal-text.js'

const { config } = parseConfig(`version: 1
rules:
  web: { hosts: [a.test], ports: [8443] }
  inner: { hosts: [c.test], addresses: ["10.0.0.1"] }
`)

const target = (host: string) => {
  const found = parseLoggedTarget('connect', { method: 'CONNECT', host, port: 443 })
  if (found === undefined) throw new Error(host)
  return found
}

t.test('a further rule lifts what no rule allows, but not beside one with addresses', async t => {
  const ask = (reason: string, rule?: string, host = 'a.test') => ({ reason, rule, target: target(host) })
  for (const reason of ['no_rule', 'single_label', 'literal', 'method', 'port']) {
    t.equal(isLiftable(ask(reason), config), true, reason)
    t.equal(isLiftable(ask(reason, 'web'), config), true, reason)
    t.equal(isLiftable(ask(reason, 'inner'), config), false, reason)
  }
  for (const reason of ['deny_host', 'address', 'client', 'malformed']) {
    t.equal(isLiftable(ask(reason), config), false, reason)
  }
  t.equal(isLiftable({ ...ask('no_rule'), target: undefined }, config), false)
  t.equal(isLiftable(ask('literal', undefined, '10.0.0.1'), config), false)
})

t.test('an address that is not public is told from one that is, and from a name', async t => {
  const table: [string, boolean][] = [
    ['10.0.0.1', true],
    ['fd00::1', true],
    ['192.88.98.1', false],
    ['a.test', false],
  ]
  for (const [host, expected] of table) t.equal(isPrivateLiteral(target(host)), expected, host)
})

t.test('the key that decides is named', async t => {
  const say = (reason: string, rule?: string) =>
    refusalText({ reason, rule, target: target('a.test') }, config)
  t.equal(say('port', 'web'), 'the port is not in rules.web.ports')
  t.equal(say('port', 'inner'), 'the port is not in connect.ports')
  t.equal(say('method', 'web'), 'the method is not in rules.web.methods')
  t.equal(say('address', 'inner'), 'its address is not public and not in rules.inner.addresses')
  t.equal(say('something_new'), 'something_new')
})

import t from 'tap'
import type { LoggedTarget } from '../../src/advice/log-event.js'
import { Sightings } from '../../src/advice/sightings.js'

const target = (method: LoggedTarget['method'], port: number): LoggedTarget => ({
  form: method === 'CONNECT' ? 'connect' : 'forward',
  method,
  host: { kind: 'name', name: 'a.test' },
  port,
})

t.test('keeps every port of a host once, with all the ways in which it was used', async t => {
  const sightings = new Sightings()
  for (let i = 0; i < 3; i++) {
    sightings.add(target('GET', 80))
    sightings.add(target('CONNECT', 443))
    sightings.add(target('POST', 80))
  }
  sightings.addUpgrade(target('GET', 81))
  t.strictSame([...sightings.hosts.keys()], ['a.test'])
  t.same(
    [...(sightings.hosts.get('a.test') ?? [])],
    [
      [80, { tunnel: false, upgrade: false, methods: new Set(['GET', 'POST']) }],
      [443, { tunnel: true, upgrade: false, methods: new Set() }],
      [81, { tunnel: false, upgrade: true, methods: new Set() }],
    ],
  )
})

import t from 'tap'
import { describeModes, modeOf, namesOf, observedClients } from '../../src/config/client-modes.js'
import { load } from './problems-of.js'

/** @param modes of the entries c0, c1, ...; '' for one without a mode */
const configOf = (mode: string, ...modes: string[]) =>
  load(`mode: ${mode}
clients: [${modes.map((own, i) => `{ name: c${i}, cidr: ["10.${i}.0.0/16"]${own === '' ? '' : `, mode: ${own}`} }`).join(', ')}]`)

t.test('the mode of an entry is its own, or else that at the top of the file', async t => {
  const config = configOf('observe', '', 'enforce', 'observe')
  t.same(
    config.clients.map(entry => modeOf(config, entry)),
    ['observe', 'enforce', 'observe'],
  )
  t.same(observedClients(config), ['c0', 'c2'])
})

t.test('says in a few words who is observed', async t => {
  for (const [mode, modes, text] of [
    ['enforce', [], 'enforce'],
    ['observe', [], 'observe'],
    ['enforce', ['', 'enforce'], 'enforce'],
    ['observe', ['', 'observe'], 'observe'],
    ['enforce', ['observe', ''], 'observe for c0; enforce for the others'],
    ['observe', ['enforce', '', ''], 'observe for c1, c2; enforce for the others'],
    ['enforce', ['observe', 'observe'], 'observe'],
    ['observe', ['enforce'], 'enforce'],
  ] as const)
    t.equal(describeModes(configOf(mode, ...modes)), text)
})

t.test('names no more than ten', async t => {
  const names = Array.from({ length: 12 }, (_, i) => `c${i}`)
  t.equal(namesOf(names.slice(0, 10)), names.slice(0, 10).join(', '))
  t.equal(namesOf(names), `${names.slice(0, 10).join(', ')} and 2 more`)
})

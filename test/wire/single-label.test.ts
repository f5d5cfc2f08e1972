/**
 * Names of a single label, and search domains: no name is reached that policy has not judged, and CONNECT, http:// and
 * `sluice explain` agree on it.
 */
import { join } from 'node:path'
import { writeFileSync } from 'node:fs'
import { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { runExplain } from '../../src/cli/explain.js'
import type { SystemNamesOptions } from '../../src/dns/system-names.js'
import { dialled } from '../kit/fakes/dialled.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { readResponse } from '../kit/peers/read-response.js'
import { testProxy } from '../kit/proxies/test-proxy.js'

const PUBLIC = '93.184.216.34'

/** A resolver with the search domain `corp.test`; other names that it is asked for are not absolute. */
const ABSOLUTE: Readonly<Record<string, string>> = {
  'secret.corp.test.': PUBLIC,
  'api.corp.test.': PUBLIC,
  'allowed.example.corp.test.': PUBLIC,
  'web.': PUBLIC,
}

interface Answer {
  readonly connect: number
  readonly forward: number
  readonly explained: number
  readonly reason: unknown
}

async function setUp(t: Test, yaml: string, resolvConf = 'search corp.test\noptions ndots:5\n') {
  const folder = t.testdir({ 'resolv.conf': resolvConf, hosts: `${PUBLIC} files files.corp.example\n` })
  const asked: string[] = []
  const system: SystemNamesOptions = {
    resolvConf: join(folder, 'resolv.conf'),
    hostsFile: join(folder, 'hosts'),
    hostname: () => 'host',
    environment: {},
    lookup: async name => {
      asked.push(name)
      const address = ABSOLUTE[name]
      if (address === undefined) throw Object.assign(new Error('not found'), { code: 'ENOTFOUND' })
      return [address]
    },
  }
  const { connector } = dialled(() => {
    const socket = new Socket()
    process.nextTick(() => socket.destroy(Object.assign(new Error('refused'), { code: 'ECONNREFUSED' })))
    return socket
  })
  const proxy = await testProxy(t, yaml, { system, connector })
  const file = join(folder, 'sluice.yaml')
  writeFileSync(file, `version: 1\n${yaml}`)
  const told: string[] = []
  const explain = (url: string): Promise<number> =>
    runExplain(
      { urls: [url], config: file, client: '127.0.0.1', json: true },
      {
        io: { stdout: text => told.push(text), stderr: () => {}, color: false },
        command: 'sluice',
        color: false,
        system,
      },
    )
  let exchanges = 0
  /** A connection that is refused at once shows that the request was allowed: 502. */
  const answersTo = async (host: string): Promise<Answer> => {
    const statuses: number[] = []
    const reasons = new Set<unknown>()
    for (const head of [
      `CONNECT ${host}:443 HTTP/1.1\r\nHost: h\r\n\r\n`,
      `GET http://${host}/ HTTP/1.1\r\nHost: h\r\n\r\n`,
    ]) {
      const client = await rawClient(t, proxy.port)
      client.write(head)
      statuses.push((await readResponse(client)).status)
      reasons.add((await proxy.event('decision', ++exchanges))['reason'])
      client.destroy()
    }
    const codes = [await explain(`${host}:443`), await explain(`http://${host}/`)]
    t.equal(codes[0], codes[1], `explain says the same of both for ${host}`)
    const [connect = 0, forward = 0] = statuses
    t.equal(reasons.size, 1)
    const [reason] = reasons
    return { connect, forward, explained: codes[0] ?? -1, reason }
  }
  return { answersTo, asked, told }
}

const REFUSED = { connect: 403, forward: 403, explained: 1 }
const ALLOWED = { connect: 502, forward: 502, explained: 0 }

t.test('a short name cannot bypass an entry of deny.hosts', async t => {
  const { answersTo, asked } = await setUp(
    t,
    'rules: { web: { hosts: ["*"] } }\ndeny: { hosts: ["*.corp.test"] }\n',
  )
  t.match(await answersTo('secret.corp.test'), { ...REFUSED, reason: 'deny_host' })
  t.match(await answersTo('secret'), { ...REFUSED, reason: 'single_label' })
  t.match(await answersTo('secret.'), { ...REFUSED, reason: 'single_label' })
  t.same(asked, [], 'and nobody is asked')
})

t.test('nor can one in a rule, if the resolver would complete it to a denied name', async t => {
  const { answersTo, asked, told } = await setUp(
    t,
    'rules: { web: { hosts: ["*", secret] } }\ndeny: { hosts: ["*.corp.test"] }\n',
  )
  t.match(await answersTo('secret'), { ...REFUSED, reason: 'deny_host' })
  t.same([...new Set(asked)], ['secret.'])
  t.match(told[0], /The resolver makes secret\.corp\.test of secret, deny\.hosts holds \\"\*\.corp\.test\\"/)
})

t.test('a short name in a rule is completed with the search domains', async t => {
  const { answersTo, asked, told } = await setUp(t, 'rules: { own: { hosts: [api, web] } }\n')
  t.match(await answersTo('api'), ALLOWED)
  t.same([...new Set(asked)], ['api.corp.test.'])
  t.match(JSON.parse(told[0] ?? ''), { decision: 'allow', rule: 'own', dns: { addresses: [PUBLIC] } })
  t.match(await answersTo('web'), ALLOWED)
  t.same([...new Set(asked)].slice(1), ['web.corp.test.', 'web.'])
})

t.test('with ndots:0, as in a container of Docker, it is looked up unchanged first', async t => {
  const { answersTo, asked } = await setUp(
    t,
    'rules: { own: { hosts: [web] } }\n',
    'search corp.test\noptions ndots:0\n',
  )
  t.match(await answersTo('web'), ALLOWED)
  t.same([...new Set(asked)], ['web.'])
})

t.test('a name with a dot is looked up as an absolute one, and no search domain is added', async t => {
  const { answersTo, asked } = await setUp(t, 'rules: { web: { hosts: ["*"] } }\n')
  for (const name of ['allowed.example', 'allowed.example.']) {
    t.match(await answersTo(name), { connect: 502, forward: 502, explained: 75 }, name)
  }
  t.same([...new Set(asked)], ['allowed.example.'])
})

t.test('names of /etc/hosts are known without a query', async t => {
  const { answersTo, asked } = await setUp(t, 'rules: { web: { hosts: ["*", files] } }\n')
  t.match(await answersTo('files'), ALLOWED)
  t.match(await answersTo('files.corp.example'), ALLOWED)
  t.same(asked, [])
})

t.test('mode observe allows a short name, but not against deny.hosts', async t => {
  const { answersTo } = await setUp(
    t,
    'mode: observe\nrules: { web: { hosts: ["*"] } }\ndeny: { hosts: ["secret.corp.test"] }\n',
  )
  t.match(await answersTo('api'), { ...ALLOWED, reason: 'single_label' })
  t.match(await answersTo('secret'), REFUSED)
})

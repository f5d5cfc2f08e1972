import t from 'tap'
import { defaultConfig } from '../../src/index.js'
import { quantile } from '../../src/observe/sliding-windows.js'
import { StatusRecorder } from '../../src/observe/status-recorder.js'

t.test('keeps what both events of an exchange say, and samples once a second', async t => {
  const clock = { ms: 5000 }
  const totals = { requests: 0, denied: 0, opened: 0, bytesUp: 0, bytesDown: 0, tunnels: 0 }
  const recorder = new StatusRecorder({
    now: () => clock.ms,
    wallClock: () => clock.ms,
    totals: () => ({ ...totals }),
  })
  const subject = {
    id: 'x-1',
    client: 'ci',
    clientAddress: '10.0.0.1',
    kind: 'forward',
    method: 'GET',
    host: 'a.test',
    port: 80,
  } as const
  const outcome = {
    handler: 'forward',
    status: 200,
    closeReason: 'complete',
    bytesUp: 0,
    bytesDown: 0,
    connectMs: 20,
    firstByteMs: 300,
  } as const
  recorder.close(subject, outcome, 400, { decision: 'allow', dnsMs: 4 })
  recorder.decision(subject, { decision: 'deny', reason: 'no_rule' }, 'h')
  totals.requests = 3
  clock.ms = 6000
  recorder.sample()
  const tunnels = { open: 0, listed: [] }
  const report = recorder.report({
    worker: 2,
    pid: 7,
    config: defaultConfig().config,
    configHash: 'h',
    tunnels,
    upstreams: [],
  })
  t.same([report.worker, report.pid], [2, 7])
  t.equal(report.startedMs, 5000)
  t.equal(report.configHash, 'h')
  t.same(report.traffic.requests, [3])
  t.equal(report.denials.listed.length, 1)
  t.ok(report.busy >= 0 && report.busy <= 1)
  for (const [name, ms] of [
    ['dns', 4],
    ['dial', 20],
    ['firstByte', 300],
  ] as const) {
    const found = quantile(report.latencies[name], 1) ?? 0
    t.ok(found > ms / 1.21 && found < ms * 1.21, `${name} ${found}`)
  }
  t.same(JSON.parse(JSON.stringify(report)).traffic, report.traffic, 'plain values')
})

t.test('samples by itself between start and stop', async t => {
  let asked = 0
  const none = { requests: 0, denied: 0, opened: 0, bytesUp: 0, bytesDown: 0, tunnels: 0 }
  let sampled = () => {}
  const second = new Promise<void>(resolve => {
    sampled = resolve
  })
  const recorder = new StatusRecorder({
    now: () => 0,
    wallClock: () => 0,
    totals: () => {
      asked += 1
      if (asked === 2) sampled()
      return none
    },
  })
  t.equal(asked, 1)
  recorder.start()
  recorder.start()
  // The timer alone does not keep the process alive.
  const alive = setInterval(() => {}, 1000)
  await second
  clearInterval(alive)
  recorder.stop()
  t.equal(asked, 2)
})

t.test('what a tunnel took is kept when it is established, and not again when it is over', t => {
  const recorder = new StatusRecorder({
    now: () => 0,
    wallClock: () => 0,
    totals: () => ({ requests: 0, denied: 0, opened: 0, bytesUp: 0, bytesDown: 0, tunnels: 0 }),
  })
  const { config } = defaultConfig()
  const report = () =>
    recorder.report({
      worker: 1,
      pid: 1,
      config,
      configHash: '',
      tunnels: { open: 0, listed: [] },
      upstreams: [],
    })
  const counts = () => {
    const { dial, dns } = report().latencies
    return [dial, dns].map(list => list.reduce((sum, count) => sum + count, 0))
  }
  recorder.tunnelOpened(undefined, undefined)
  t.same(counts(), [0, 0])
  recorder.tunnelOpened(20, undefined)
  t.same(counts(), [1, 0])
  recorder.tunnelOpened(20, 4)
  t.same(counts(), [2, 1])
  const subject = {
    id: 'x',
    client: undefined,
    clientAddress: '::1',
    kind: 'connect',
    method: 'CONNECT',
  } as const
  const over = { closeReason: 'complete', bytesUp: 0, bytesDown: 0, connectMs: 20 } as const
  const decided = { decision: 'allow', dnsMs: 4 } as const
  const tunnel = { ...over, handler: 'tunnel', status: 200 } as const
  recorder.close(subject, tunnel, 1, decided)
  recorder.close(subject, { ...over, handler: 'forward', status: 101 }, 1, decided)
  t.same(counts(), [2, 1])
  recorder.close(subject, { ...tunnel, status: 502 }, 1, decided)
  t.same(counts(), [3, 2])
  t.same(report().denials.listed, [])
  recorder.close(subject, { ...tunnel, serverName: { fault: 'sni_missing' } }, 1, decided)
  t.match(report().denials.listed, [{ reason: 'sni_missing', decision: 'deny' }])
  t.end()
})

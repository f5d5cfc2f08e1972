import t from 'tap'
import { fitLimits, neededOpenFiles, outOfFiles, parseOpenFilesLimit } from '../../src/run/open-files.js'
import { parseConfig } from '../../src/config/load.js'
import type { Config } from '../../src/config/schema.js'
import { neededSockets } from '../../src/dns/dns-servers.js'

const neededBy = ({ limits, dns }: Config, workers: number): number =>
  neededOpenFiles(limits, neededSockets(dns.servers, limits.dnsLookups), workers)

const proc = (soft: string) =>
  [
    'Limit                     Soft Limit           Hard Limit           Units     ',
    'Max processes             47712                47712                processes ',
    `Max open files            ${soft.padEnd(20)} 1048576              files     `,
    'Max locked memory         8388608              8388608              bytes     ',
  ].join('\n')

t.test('the soft limit applies', async t => {
  t.equal(parseOpenFilesLimit(proc('1024')), 1024)
  t.equal(parseOpenFilesLimit(proc('unlimited')), undefined)
  t.equal(parseOpenFilesLimit(''), undefined)
})

t.test(
  'every connection needs one descriptor, a tunnel a second, and the process some of its own',
  async t => {
    const { config } = parseConfig('version: 1\nlimits: { connections: 100, tunnels: 10 }\n')
    t.equal(neededBy(config, 1), 174)
  },
)

t.test('each of several workers needs its share, and half of that in addition', async t => {
  const { config } = parseConfig('version: 1\nlimits: { connections: 100, tunnels: 10 }\n')
  t.equal(neededBy(config, 2), 64 + 83)
  t.equal(neededBy(config, 4), 64 + 42)
})

t.test('each process needs the sockets for the names that it resolves by dns.servers', async t => {
  const needed = (keys: string, workers: number): number =>
    neededBy(
      parseConfig(
        `version: 1\nlimits: { connections: 100, tunnels: 10${keys} }\ndns: { servers: ["10.0.0.2"] }\n`,
      ).config,
      workers,
    )
  t.equal(needed('', 1), 174 + 64 * 4)
  t.equal(needed('', 2), 64 + 83 + 64 * 4)
  t.equal(needed(', dns_lookups: 10', 1), 174 + 10 * 4)
})

t.test('a start that failed because of descriptors is reported as such, whatever Node reports', async t => {
  const failed = (message: string, code: string, cause?: Error) =>
    Object.assign(new Error(message, { cause }), { code })
  const missing = failed("Cannot find package '/a/index.js'", 'ERR_MODULE_NOT_FOUND')
  const remedy = '; a start needs 256, and the process may have 255 (ulimit -n)'
  const table: [unknown, number | undefined, string | undefined][] = [
    [
      failed('EMFILE: too many open files, open a', 'EMFILE'),
      255,
      `EMFILE: too many open files, open a${remedy}`,
    ],
    [failed('EMFILE: too many open files, open a', 'EMFILE'), 256, 'EMFILE: too many open files, open a'],
    [failed('listen ENFILE', 'ENFILE'), undefined, 'listen ENFILE'],
    [
      new Error('the first worker ended: spawn node EMFILE'),
      256,
      'the first worker ended: spawn node EMFILE',
    ],
    [missing, 255, `Cannot find package '/a/index.js'${remedy}`],
    [new Error('not installed', { cause: missing }), 255, `Cannot find package '/a/index.js'${remedy}`],
    [new TypeError('a is not a constructor'), 255, `a is not a constructor${remedy}`],
    [new TypeError('a is not a constructor'), 256, undefined],
    [missing, 256, undefined],
    [missing, undefined, undefined],
    [failed('listen EADDRINUSE', 'EADDRINUSE'), 255, undefined],
    ['EMFILE', 255, undefined],
  ]
  for (const [error, limit, expected] of table) {
    const text = expected === undefined ? undefined : `too few file descriptors: ${expected}`
    t.equal(outOfFiles(error, limit), text, `${error} ${limit}`)
  }
})

t.test('limits that the file does not set are lowered to the descriptors, others are not', async t => {
  const fit = (yaml: string, openFiles: number | undefined, workers = 1, sockets = 0) => {
    const loaded = parseConfig(`version: 1\n${yaml}\n`)
    const fitted = fitLimits(loaded, openFiles, sockets, workers)
    const { connections, tunnels } = fitted.config.limits
    if (fitted !== loaded) {
      const needed = neededOpenFiles(fitted.config.limits, sockets, workers)
      t.ok(needed <= (openFiles ?? 0) && needed >= (openFiles ?? 0) - 2, `${needed} of ${openFiles}`)
      t.ok(Object.isFrozen(fitted.config.limits))
      t.same(
        { ...fitted.config.limits, connections: 0, tunnels: 0 },
        { ...loaded.config.limits, connections: 0, tunnels: 0 },
      )
    }
    return fitted === loaded ? 'as it is' : [connections, tunnels]
  }
  t.equal(fit('', undefined), 'as it is')
  t.equal(fit('', 30_064), 'as it is')
  t.same(fit('', 30_063), [20_000, 9999])
  t.same(fit('', 20_000), [13_291, 6645])
  t.same(fit('', 20_000, 1, 936), [12_667, 6333])
  t.same(fit('', 400), [224, 112])
  t.same(fit('', 5000, 4), [8775, 4387])
  t.equal(fit('', 66), 'as it is')
  t.equal(fit('limits: { connections: 20000, tunnels: 10000 }', 400), 'as it is')
  t.same(fit('limits: { connections: 300 }', 400), [300, 36])
  t.equal(fit('limits: { connections: 400 }', 400), 'as it is')
  t.same(fit('limits: { tunnels: 100 }', 400), [236, 100])
  t.equal(fit('limits: { tunnels: 300 }', 400), 'as it is')
  t.equal(fit('limits: { connections: 100, tunnels: 50 }', 400), 'as it is')
})

t.test('limits of a client above what the descriptors leave for all are a warning', async t => {
  const yaml = `version: 1
clients:
  - { name: ci, cidr: ["10.0.0.0/8"], limits: { tunnels_per_client: 500, tunnels: 100 } }
  - { name: far, cidr: ["::1"], limits: { tunnels: 20000 } }
`
  const loaded = parseConfig(yaml)
  const paths = ({ warnings }: typeof loaded) => warnings.map(({ line, path }) => `${line} ${path}`)
  const before = ['3 clients[0].limits.tunnels_per_client', '4 clients[1].limits.tunnels']
  t.same(paths(loaded), before)
  t.same(paths(fitLimits(loaded, 20_000, 0, 1)), before, 'what was said is not said again')
  const fitted = fitLimits(parseConfig(yaml.replace(', tunnels: 100', '').replace('20000', '200')), 400, 0, 1)
  t.match(fitted.warnings, [
    {
      line: 3,
      path: 'clients[0].limits.tunnels_per_client',
      message: 'is above limits.tunnels (112), which is always reached before it',
    },
    { line: 4, path: 'clients[1].limits.tunnels' },
  ])
})

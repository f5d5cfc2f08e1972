import t from 'tap'
import { neededOpenFiles, parseOpenFilesLimit } from '../../src/cli/open-files.js'
import { parseConfig } from '../../src/config/load.js'

const proc = (soft: string) =>
  [
    'Limit                     Soft Limit           Hard Limit           Units     ',
    'Max processes             47712                47712                processes ',
    `Max open files            ${soft.padEnd(20)} 1048576              files     `,
    'Max locked memory         8388608              8388608              bytes     ',
  ].join('\n')

t.test('the soft limit is what counts', async t => {
  t.equal(parseOpenFilesLimit(proc('1024')), 1024)
  t.equal(parseOpenFilesLimit(proc('unlimited')), undefined)
  t.equal(parseOpenFilesLimit(''), undefined)
})

t.test('every connection needs one, a tunnel a second, and the process has some of its own', async t => {
  const { limits } = parseConfig('version: 1\nlimits: { connections: 100, tunnels: 10 }\n').config
  t.equal(neededOpenFiles(limits, 1), 174)
})

t.test('of several workers each needs its part, and half of that more', async t => {
  const { limits } = parseConfig('version: 1\nlimits: { connections: 100, tunnels: 10 }\n').config
  t.equal(neededOpenFiles(limits, 2), 64 + 83)
  t.equal(neededOpenFiles(limits, 4), 64 + 42)
})

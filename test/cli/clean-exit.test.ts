/** However the program is told to stop, nothing of it is left: no process, no port, no socket file. */
import { readdirSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import t, { type Test } from 'tap'
import { untilFree } from '../kit/peers/free-port.js'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { halt } from '../kit/processes/process-group.js'
import { type RawOrigin, rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { type End, type Running, runCases } from '../kit/processes/clean-exit.js'
import { installProgram } from '../kit/processes/program.js'
import { until } from '../kit/until.js'

t.jobs = 2

/** A request that has come to its origin, and a tunnel. */
async function opened(t: Test, running: Running, origin: RawOrigin) {
  const tunnel = await rawClient(t, await running.port())
  tunnel.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: a\r\n\r\n`)
  const far = await origin.accept()
  t.equal(await tunnel.until('\r\n\r\n'), ESTABLISHED)
  const request = await rawClient(t, await running.port())
  request.write(`GET http://${origin.authority}/ HTTP/1.1\r\nHost: a\r\n\r\n`)
  const asked = await origin.accept()
  await asked.until('\r\n\r\n')
  return { tunnel, far, request, asked }
}

/** Sends signals to a program that has something open. */
function whileBusy(...signals: readonly NodeJS.Signals[]): End {
  return async (t, running) => {
    const { tunnel, request } = await opened(t, running, await rawOrigin(t))
    for (const signal of signals) {
      running.child.kill(signal)
      await running.said(/"event":"stopping"/)
    }
    await tunnel.untilEnd()
    t.equal(await request.untilEnd(), '')
  }
}

/** Sends a signal to a program that serves. */
function atRest(signal: NodeJS.Signals): End {
  return async (_t, running) => {
    await running.port()
    running.child.kill(signal)
  }
}

runCases(t, await installProgram(t), [
  { name: 'SIGTERM', end: atRest('SIGTERM'), code: 0 },
  { name: 'SIGINT', end: atRest('SIGINT'), code: 0 },
  {
    name: 'SIGTERM, and what is open ends',
    end: async (t, running) => {
      const { tunnel, far, request, asked } = await opened(t, running, await rawOrigin(t))
      running.child.kill('SIGTERM')
      await running.said(/"event":"stopping"/)
      // Until it does not listen any more, a worker may not have been told, and would keep the connection open.
      await untilFree(await running.port())
      asked.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      t.match(await request.untilEnd(), /^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\nConnection: close\r\n[\s\S]*ok$/)
      for (const end of [tunnel, far, request]) end.end()
    },
    code: 0,
  },
  { name: 'SIGTERM, and what is open does not end', end: whileBusy('SIGTERM'), drain: '0s', code: 0 },
  { name: 'two signals', end: whileBusy('SIGTERM', 'SIGTERM'), code: 130 },
  {
    name: 'SIGTERM as it has made its first socket',
    end: async (_t, running) => {
      await until('its first socket', () => readdirSync(dirname(running.file)).length > 1)
      running.child.kill('SIGTERM')
    },
    code: 0,
  },
  {
    name: 'two signals as it has made its sockets',
    workers: 1,
    delay: '1h',
    end: async (_t, { pid, file, child }) => {
      await until('both its sockets', () => readdirSync(dirname(file)).length === 3)
      // It hears both at once then.
      await halt(pid)
      for (const signal of ['SIGTERM', 'SIGINT', 'SIGCONT'] as const) child.kill(signal)
    },
    code: 130,
  },
  {
    name: 'two signals as its second worker starts',
    workers: 2,
    delay: '1h',
    end: async (_t, { child, said }) => {
      await said(/"event":"worker_started","worker":1,/)
      for (const signal of ['SIGTERM', 'SIGINT'] as const) child.kill(signal)
    },
    code: 130,
  },
  {
    name: 'SIGTERM as its configuration is read again',
    end: async (_t, running) => {
      await running.port()
      writeFileSync(running.file, `${await readFile(running.file, 'utf8')}via: other\n`)
      running.child.kill('SIGHUP')
      running.child.kill('SIGTERM')
    },
    code: 0,
  },
])

/**
 * The ways through src/ that src/README.md lists, held against what is entered: by precise coverage, while one GET is
 * forwarded and one tunnel is opened and closed, each behind others like it.
 */
import { Session } from 'node:inspector/promises'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { rawOrigin } from '../kit/peers/raw-origin.js'
import { rawClient } from '../kit/peers/raw-peer.js'
import { scriptedOrigin } from '../kit/peers/scripted-origin.js'
import { turns } from '../kit/peers/until-stable.js'
import { ESTABLISHED } from '../kit/proxies/open-tunnel.js'
import { WALL_CLOCK } from '../kit/proxies/refusal.js'
import { LOOPBACK_RULES, testProxy } from '../kit/proxies/test-proxy.js'
import { createLogger } from '../../src/index.js'
import { ManualClock } from '../kit/fakes/manual-clock.js'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const NEVER_MS = 2 ** 31 - 1

/** `file.ts name` for each function below a heading, where lines are `- \`file.ts\`: \`name\`, \`name\``. */
function listed(heading: string): string[] {
  const text = readFileSync(`${ROOT}src/README.md`, 'utf8')
  const section = text.split(/^## /m).find(part => part.startsWith(`${heading}\n`)) ?? ''
  return [...section.matchAll(/^- `([^`]+\.ts)`: (.*(?:\n {2}.*)*)/gm)]
    .flatMap(([, file = '', names = '']) =>
      [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => `${file} ${name}`),
    )
    .sort()
}

/**
 * The functions of src/ that are entered while `act` runs. Not those without a name, which are read as a part of what they
 * stand in; nor getters, and constructors, which set the fields of an object.
 */
async function entered(act: () => Promise<void>): Promise<string[]> {
  const session = new Session()
  session.connect()
  try {
    await session.post('Profiler.enable')
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    await session.post('Profiler.takePreciseCoverage')
    await act()
    const { result } = await session.post('Profiler.takePreciseCoverage')
    return result
      .filter(({ url }) => url.includes('/.build/src/'))
      .flatMap(({ url, functions }) => {
        const file = (url.split('/.build/src/')[1] ?? '').replace(/\.js$/, '.ts')
        return functions
          .filter(({ functionName: name, ranges }) => isRead(name) && ranges.some(({ count }) => count > 0))
          .map(({ functionName }) => `${file} ${functionName}`)
      })
      .sort()
  } finally {
    session.disconnect()
  }
}

const isRead = (name: string): boolean => /^(?!get )[#a-z]/.test(name)

function filesOf(functions: readonly string[]): number {
  return new Set(functions.map(text => text.split(' ')[0])).size
}

/** Clocks that show the same throughout: what is done once a second, or when a window is over, is on the way of none. */
function standingStill() {
  return { now: new ManualClock().now, wallClock: WALL_CLOCK }
}

/** What looks at all connections every so often is on the way of none. */
function withoutTicks(t: Test): void {
  const { setInterval } = globalThis
  Object.assign(globalThis, { setInterval: () => setInterval(() => {}, NEVER_MS) })
  t.teardown(() => Object.assign(globalThis, { setInterval }))
}

t.test('a warm GET', async t => {
  withoutTicks(t)
  const origin = await scriptedOrigin(t)
  const logger = createLogger('error', { write: () => {} })
  const proxy = await testProxy(t, LOOPBACK_RULES, { ...standingStill(), logger })
  const client = await rawClient(t, proxy.port)
  const get = async (): Promise<void> => {
    client.write(
      `GET http://${origin.authority}/ HTTP/1.1\r\nHost: ${origin.authority}\r\nAccept: */*\r\n\r\n`,
    )
    await client.until('ok')
    await turns()
  }
  for (let i = 0; i < 3; i++) await get()
  const functions = await entered(get)
  t.same(functions, listed('The way of a GET'))
  t.ok(functions.length < 90, `${functions.length} functions`)
  t.ok(filesOf(functions) < 35, `${filesOf(functions)} files`)
})

t.test('a tunnel, from the request to its end', async t => {
  withoutTicks(t)
  const origin = await rawOrigin(t)
  const proxy = await testProxy(t, LOOPBACK_RULES, standingStill())
  let closed = 0
  const tunnel = async (act: (use: () => Promise<void>) => Promise<void>): Promise<void> => {
    const client = await rawClient(t, proxy.port)
    await turns()
    await act(async () => {
      client.write(`CONNECT ${origin.authority} HTTP/1.1\r\nHost: ${origin.authority}\r\n\r\n`)
      await client.until(ESTABLISHED)
      const peer = await origin.accept()
      client.write('up')
      await peer.until('up')
      peer.write('down')
      await client.until('down')
      client.end()
      await peer.untilEnd()
      peer.end()
      await client.untilEnd()
      await proxy.event('close', ++closed)
      await turns()
    })
  }
  for (let i = 0; i < 3; i++) await tunnel(use => use())
  let functions: string[] = []
  await tunnel(async use => {
    functions = await entered(use)
  })
  t.same(functions, listed('The way of a CONNECT'))
})

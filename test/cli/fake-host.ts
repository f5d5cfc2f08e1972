/** What a process gives to the command line, without one: it is asked to stop by nothing, and starts nothing. */
import { Readable } from 'node:stream'
import { type Host, main } from '../../src/cli/main.js'
import { NOTHING_PASSED } from '../../src/listener/bind.js'

export const VERSION = '1.2.3'

export interface Said {
  stdout: string
  stderr: string
}

/** @param own what the test has itself */
export function fakeHost(own: Partial<Host> = {}): { readonly host: Host; readonly said: Said } {
  const said = { stdout: '', stderr: '' }
  const host: Host = {
    io: {
      stdout: text => {
        said.stdout += text
      },
      stderr: text => {
        said.stderr += text
      },
      color: false,
    },
    terminal: false,
    color: false,
    command: 'sluice',
    startId: 'test',
    build: { version: VERSION, node: '20.0.0' },
    pid: 1,
    passedSockets: NOTHING_PASSED,
    notifyService: async () => undefined,
    environment: {},
    node: process.execPath,
    stdin: { terminal: true, open: () => Readable.from([]) },
    openFilesLimit: () => undefined,
    fork: () => {
      throw new Error('a process was started')
    },
    awaitStop: () => new Promise<string>(() => {}),
    onReload: () => {},
    onSignal: () => () => {},
    onUncaught: () => {},
    onExit: () => {},
    ...own,
  }
  return { host, said }
}

/** The whole program, as far as it ends by itself. */
export function sluice(...argv: string[]): Promise<Said & { readonly code: number }> {
  return sluiceOn({}, ...argv)
}

/** The same on a host of the test's own. */
export async function sluiceOn(
  own: Partial<Host>,
  ...argv: string[]
): Promise<Said & { readonly code: number }> {
  const { host, said } = fakeHost(own)
  return { code: await main(argv, VERSION, host), ...said }
}

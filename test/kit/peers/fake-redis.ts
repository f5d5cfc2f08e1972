/**
 * The parts of Redis that the store uses, in the process of the test, which can delay or replace its answers: bytes on
 * a real socket (the Redis serialization protocol, version 2).
 */
import type { Test } from 'tap'
import { Changes, until } from '../until.js'
import { type RawOrigin, rawOrigin } from './raw-origin.js'
import type { RawPeer } from './raw-peer.js'

/** Text has one character for each byte. */
export type FakeCommand = readonly string[]
/** A serialized answer; undefined for no answer at all. */
export type Answer = (command: FakeCommand, peer: RawPeer) => string | undefined

export interface FakeRedis {
  readonly url: string
  readonly origin: RawOrigin
  /** All commands, in the order received. */
  readonly commands: FakeCommand[]
  /** Hashes by name, fields by name. */
  readonly hashes: Map<string, Map<string, string>>
  /** Replaces its own answers; undefined to restore them. */
  answer: Answer | undefined
  /** Its own answer. */
  usual(command: FakeCommand, peer: RawPeer): string
  /** Waits until this many commands of this name were received. */
  received(name: string, count?: number): Promise<readonly FakeCommand[]>
}

export async function fakeRedis(t: Test): Promise<FakeRedis> {
  const origin = await rawOrigin(t)
  const hashes: FakeRedis['hashes'] = new Map()
  const commands: FakeCommand[] = []
  const changes = new Changes()
  t.teardown(() => changes.end())
  const queued = new Map<RawPeer, FakeCommand[]>()
  const usual = (command: FakeCommand, peer: RawPeer): string => {
    const [name = ''] = command
    const waiting = queued.get(peer)
    if (name === 'MULTI') {
      queued.set(peer, [])
      return '+OK\r\n'
    }
    if (name === 'EXEC') {
      queued.delete(peer)
      return list((waiting ?? []).map(each => answerOne(hashes, each)))
    }
    if (waiting === undefined) return answerOne(hashes, command)
    waiting.push(command)
    return '+QUEUED\r\n'
  }
  const fake: FakeRedis = {
    url: `redis://${origin.authority}`,
    origin,
    commands,
    hashes,
    answer: undefined,
    usual,
    received: (name, count = 1) =>
      until(
        `${count} of ${name}`,
        () => {
          const found = commands.filter(command => command[0] === name)
          return found.length >= count ? found : undefined
        },
        { changes, seen: () => commands.map(command => command[0]) },
      ),
  }
  origin.each(peer => {
    let rest = ''
    peer.socket.on('data', (chunk: Buffer) => {
      rest += chunk.toString('latin1')
      for (;;) {
        const parsed = parseCommand(rest)
        if (parsed === undefined) return
        rest = rest.slice(parsed.length)
        commands.push(parsed.command)
        const answer = (fake.answer ?? usual)(parsed.command, peer)
        if (answer !== undefined) peer.write(answer)
        changes.notify()
      }
    })
  })
  return fake
}

export function bulk(text: string | undefined): string {
  return text === undefined ? '$-1\r\n' : `$${text.length}\r\n${text}\r\n`
}

export function list(answers: readonly string[]): string {
  return `*${answers.length}\r\n${answers.join('')}`
}

function answerOne(hashes: FakeRedis['hashes'], [name, key = '', ...args]: FakeCommand): string {
  const hash = hashes.get(key)
  const [field = '', value = ''] = args
  switch (name) {
    case 'PING':
      return '+PONG\r\n'
    case 'GET':
      return bulk(hash?.get(''))
    case 'SET':
      hashes.set(key, new Map([['', field]]))
      return '+OK\r\n'
    case 'HGET':
      return bulk(hash?.get(field))
    case 'HGETALL':
      return list([...(hash ?? [])].flat().map(bulk))
    case 'HKEYS':
      return list([...(hash?.keys() ?? [])].map(bulk))
    case 'HLEN':
      return `:${hash?.size ?? 0}\r\n`
    case 'HSETNX':
    case 'HSET': {
      const isNew = hash?.has(field) !== true
      if (isNew || name === 'HSET') hashes.set(key, (hash ?? new Map()).set(field, value))
      return isNew ? ':1\r\n' : ':0\r\n'
    }
    case 'HDEL': {
      const removed = args.filter(each => hash?.delete(each)).length
      if (hash?.size === 0) hashes.delete(key)
      return `:${removed}\r\n`
    }
    case 'UNLINK':
      return hashes.delete(key) ? ':1\r\n' : ':0\r\n'
    case 'PEXPIRE':
      return hash === undefined ? ':0\r\n' : ':1\r\n'
    default:
      return `-ERR unknown command '${name}'\r\n`
  }
}

/** @returns undefined when it is incomplete */
function parseCommand(text: string): { readonly command: FakeCommand; readonly length: number } | undefined {
  let at = 0
  const number = (mark: string): number | undefined => {
    const end = text.indexOf('\r\n', at)
    if (end === -1 || text[at] !== mark) return undefined
    const value = Number(text.slice(at + 1, end))
    at = end + 2
    return value
  }
  const count = number('*')
  if (count === undefined) return undefined
  const command: string[] = []
  for (let i = 0; i < count; i++) {
    const length = number('$')
    if (length === undefined || text.length < at + length + 2) return undefined
    command.push(text.slice(at, at + length))
    at += length + 2
  }
  return { command, length: at }
}

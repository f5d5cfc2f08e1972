/** The client of the admin listener of a running proxy, for commands that send it one request. */
import type { Argv } from 'yargs'
import {
  isTcp,
  type ListenAddress,
  parseSingleAddress,
  serializeListenAddress,
} from '../config/listen-address.js'
import { errorCode } from '../errors.js'
import { request } from '../http/node-http.js'
import { checkConfigName } from './command.js'

export interface AdminRequest {
  readonly method: string
  readonly path: string
  /** Milliseconds without a byte after which the request is given up. */
  readonly silenceMs: number
  /** The value of the Authorization field. */
  readonly authorization?: string | undefined
}

export interface AdminAnswer {
  readonly status: number
  readonly text: string
}

/** More than any response of the admin listener to a command. */
const MAX_ANSWER = 1024 * 1024
/** A listener on all addresses is reached on loopback. */
const UNSPECIFIED: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

class Silent extends Error {}
class TooLong extends Error {}

/** @returns why the configured address cannot be connected to; undefined if it can */
export function unreachable(address: ListenAddress | false): string | undefined {
  if (address === false) return 'the admin listener is off: listen.admin is false'
  if (!('descriptorName' in address) && address.port !== 0) return undefined
  const text = `${serializeListenAddress(address)} does not say where the admin listener is`
  return `${text}; set its address with --admin`
}

/** @throws the system's error, or that of the HTTP parser, for describeAdminFailure */
export function askAdmin(address: ListenAddress, asked: AdminRequest): Promise<AdminAnswer> {
  const { method, path, silenceMs, authorization } = asked
  const to = isTcp(address)
    ? { host: UNSPECIFIED[address.host] ?? address.host, port: address.port }
    : { socketPath: 'path' in address ? address.path : '' }
  return new Promise((resolve, reject) => {
    const headers = {
      Host: 'localhost',
      'Content-Type': 'application/json',
      'Content-Length': 0,
      ...(authorization === undefined ? {} : { Authorization: authorization }),
    }
    const sent = request({ ...to, method, path, headers, agent: false, timeout: silenceMs }, response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk: string) => {
        text += chunk
        if (text.length > MAX_ANSWER) response.destroy(new TooLong())
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
      response.on('error', reject)
    })
    sent.on('timeout', () => sent.destroy(new Silent()))
    sent.on('error', reject)
    sent.end()
  })
}

const FAILURES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nobody listens on',
  ENOENT: 'there is no',
  EACCES: 'no permission to connect to',
  ECONNRESET: 'the connection was reset by',
}

/** Why a request failed, with a hint for the user. */
export function describeAdminFailure(error: unknown, address: ListenAddress): string {
  const place = `${serializeListenAddress(address)}, the admin listener`
  const code = errorCode(error)
  const known = FAILURES[code ?? '']
  if (known !== undefined)
    return `${known} ${place}; is the proxy running, and does --admin or --config say where?`
  if (error instanceof Silent) return `no response from ${place}`
  return `invalid response from ${place} (${code ?? (error instanceof Error ? error.message : String(error))})`
}

/** The options that say where the admin listener is. */
export function withAdminOptions<Options>(yargs: Argv<Options>) {
  return yargs
    .option('admin', {
      type: 'string',
      requiresArg: true,
      describe: 'address of the admin listener, such as 127.0.0.1:9128; beats the file',
    })
    .option('config', {
      alias: 'c',
      type: 'string',
      requiresArg: true,
      describe: 'configuration file of the proxy, which says where its admin listener is',
    })
}

/** @throws RangeError with one clause for the user, if one of these options has a value that cannot be used */
export function checkAdminOptions(args: Readonly<Record<string, unknown>>): void {
  checkConfigName(args)
  const { admin } = args as { readonly admin?: string }
  if (admin !== undefined) parseSingleAddress(admin)
}

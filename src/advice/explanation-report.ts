/** Serializes an explanation as text, with one line per step and its place in the file, and as one JSON object. */
import { serializeDnsServer } from '../config/dns-server.js'
import type { Loaded } from '../config/load.js'
import { escapeUnprintable, formatPath, type Path } from '../config/problem.js'
import type { AddressTrace, TraceStep } from '../policy/trace.js'
import type { Explanation, Lookup } from './explanation.js'

/** The configuration behind an explanation. */
export interface Source {
  readonly loaded: Pick<Loaded, 'config' | 'placeOf'>
  /** The name of the file as given; undefined without a file. */
  readonly file: string | undefined
}

export type Paint = (color: 'red' | 'green', text: string) => string

const COLORS: Readonly<Record<string, 'red' | 'green'>> = { allow: 'green', deny: 'red', failed: 'red' }

/** @returns lines with their line ends, safe for a terminal */
export function serializeExplanation(explanation: Explanation, source: Source, paint: Paint): string {
  const { request, steps, lookup, addresses, notes } = explanation
  const lines = [
    `${request.method} ${request.target} for ${clientText(explanation, source)}`,
    ...steps.map(step => `  ${step.verdict.padEnd(5)} ${step.text}${placeOf(step.path, source)}`),
    ...(lookup === undefined ? [] : lookupLines(lookup, source)),
    ...addressLines(addresses, source),
    ...notes.map(note => `note: ${note}`),
    conclusion(explanation),
  ]
  return lines.map(line => `${painted(escapeUnprintable(line), paint)}\n`).join('')
}

/** Colours the first word of a line. */
function painted(line: string, paint: Paint): string {
  const [, indent = '', word = '', rest = ''] = /^( *)(\w+)(.*)$/s.exec(line) ?? []
  const color = COLORS[word]
  return color === undefined ? line : `${indent}${paint(color, word)}${rest}`
}

function clientText({ client }: Explanation, source: Source): string {
  if (client.kind === 'unknown') return `${client.address}, which is no client`
  const address = client.address === undefined ? '' : ` at ${client.address}`
  return `client ${client.name}${address}${placeOf(client.path, source)}`
}

function placeOf(path: Path | undefined, { loaded, file }: Source): string {
  if (path === undefined) return ''
  const place = loaded.placeOf(path)
  return place === undefined ? ' (default)' : ` (${place.file ?? file ?? 'configuration'}:${place.line})`
}

function lookupLines({ name, addresses, ms, error }: Lookup, { loaded }: Source): string[] {
  const { servers } = loaded.config.dns
  const who =
    servers.length === 0 ? 'system resolver' : `dns.servers ${servers.map(serializeDnsServer).join(', ')}`
  const answer = error === undefined ? addresses.join(', ') : error.message
  const detail = error?.detail === undefined ? [] : [`  ${error.detail}`]
  return [`DNS: ${name} -> ${answer} (${who}, ${Math.round(ms)} ms)`, ...detail]
}

/** One line per address, with address and class in columns. */
function addressLines(traces: readonly AddressTrace[], source: Source): string[] {
  const rows = traces.map(({ address, addressClass = 'no address', verdict, text, path }) => ({
    cells: [address, addressClass] as const,
    verdict,
    text: `${text}${placeOf(path, source)}`,
  }))
  const [first = 0, second = 0] = [0, 1].map(i =>
    Math.max(...rows.map(({ cells }) => (cells[i] ?? '').length)),
  )
  return rows.map(
    ({ cells: [address, is], verdict, text }) =>
      `  ${verdict.padEnd(5)} ${address.padEnd(first)}  ${is.padEnd(second)}  ${text}`,
  )
}

function conclusion({ client, verdict, rule, refusal }: Explanation): string {
  const answer = refusal === undefined ? '' : `${refusal.status} ${refusal.message}`
  switch (verdict) {
    case 'allow':
      return `allow: rules.${rule}`
    case 'would_deny': {
      const mode = client.kind === 'known' ? formatPath(client.modePath) : 'mode'
      return `allow: would be denied (${answer}), passes because ${mode} is observe`
    }
    case 'deny':
      return `deny: ${answer}`
    case 'invalid':
      return `deny: malformed (${answer})`
    case 'dns_failed':
      return `failed: DNS (${answer})`
  }
}

/** One JSON object with its line end. Every key is always present; values that do not apply are null or empty. */
export function serializeExplanationJson(explanation: Explanation, source: Source): string {
  const { request, client, verdict, refusal, lookup } = explanation
  const object = {
    target: request.target,
    form: request.form,
    method: request.method,
    client: client.kind === 'known' ? client.name : null,
    client_address: client.address ?? null,
    decision: verdict,
    rule: explanation.rule ?? null,
    status: refusal?.status ?? null,
    reason: refusal?.reason ?? null,
    message: refusal?.message ?? null,
    detail: refusal?.detail ?? null,
    steps: explanation.steps.map(step => stepObject(step, source)),
    dns:
      lookup === undefined
        ? null
        : {
            addresses: lookup.addresses,
            ms: Math.round(lookup.ms),
            error: lookup.error?.message ?? null,
          },
    addresses: explanation.addresses.map(({ address, addressClass, ...step }) => ({
      address,
      class: addressClass ?? null,
      ...stepObject(step, source),
    })),
    notes: explanation.notes,
  }
  return `${JSON.stringify(object)}\n`
}

function stepObject({ verdict, text, path }: TraceStep, { loaded, file }: Source) {
  const place = path === undefined ? undefined : loaded.placeOf(path)
  return {
    verdict,
    text,
    path: path === undefined ? null : formatPath(path),
    file: place === undefined ? null : (place.file ?? file ?? null),
    line: place?.line ?? null,
  }
}

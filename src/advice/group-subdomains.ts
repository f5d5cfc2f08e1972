/**
 * Many names below one domain as one wildcard. It allows names that nobody has seen, so it is done only when asked for,
 * and never where the parent looks like one under which strangers register: a single label, or the likes of `co.uk`.
 * Which domains are such (`github.io` is, too) no rule of form can tell: whoever asks has to look at the outcome.
 */
import { parseIpAddress } from '../net/ip-address.js'

/** A short label before the two letters of a country: `co.uk`, `com.au`, `ac.jp`. */
const COUNTRY_REGISTRY = /^[^.]{1,3}\.[a-z]{2}$/

/**
 * @param hosts names and addresses; addresses stay as they are
 * @param least names directly below one parent, from which on they become `*.parent`
 * @returns every host, or a wildcard that matches it
 */
export function groupSubdomains(hosts: readonly string[], least: number): string[] {
  const children = new Map<string, number>()
  for (const host of hosts) {
    const parent = parentOf(host)
    if (parent !== undefined) children.set(parent, (children.get(parent) ?? 0) + 1)
  }
  const parents = new Set([...children].filter(([, count]) => count >= least).map(([parent]) => parent))
  const grouped = new Set<string>()
  for (const host of hosts) {
    const covering = ancestorsOf(host).filter(ancestor => parents.has(ancestor))
    // The shortest: a wildcard matches at any depth below.
    const widest = covering[covering.length - 1]
    grouped.add(widest === undefined ? host : `*.${widest}`)
  }
  return [...grouped]
}

/** The domain directly above a name, when it may be grouped under. */
function parentOf(host: string): string | undefined {
  return isAddress(host) ? undefined : ancestorsOf(host)[0]
}

/** Domains above a name that may be grouped under, from the longest. */
function ancestorsOf(host: string): string[] {
  if (isAddress(host)) return []
  const ancestors: string[] = []
  for (let dot = host.indexOf('.'); dot !== -1; dot = host.indexOf('.', dot + 1)) {
    const ancestor = host.slice(dot + 1)
    if (!ancestor.includes('.') || COUNTRY_REGISTRY.test(ancestor)) break
    ancestors.push(ancestor)
  }
  return ancestors
}

function isAddress(host: string): boolean {
  return parseIpAddress(host) !== undefined
}

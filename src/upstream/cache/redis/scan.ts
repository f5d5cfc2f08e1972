/**
 * What takes a walk over all that a server holds: purging a host or everything, and an estimate of how much there is. SCAN
 * goes in slices, between which the server answers others.
 */
import type { CacheStats } from '../store.js'
import { contentName, entriesName, EVERY_NAME, kindOf, patternOfHost, tagOf } from './keys.js'
import type { RedisLink, Reply } from './link.js'
import { keepWhileRead } from './time-to-live.js'

/** Names that are looked at in one slice. */
const SLICE = 1_000
/** Names from which the share of entries among all of them is estimated. */
const SAMPLE = '500'
/** So that what is forgotten does not queue more commands than a link takes. */
const URIS_AT_ONCE = 8
const PARTITIONS_AT_ONCE = 32

/** Everything on one server. @returns how many entries were forgotten */
export async function purgeAll(link: RedisLink): Promise<number> {
  let forgotten = 0
  for await (const names of slices(link, EVERY_NAME)) {
    const ours = names.filter(name => kindOf(name) !== undefined)
    const entries = ours.filter(name => kindOf(name) === 'e')
    const others = ours.filter(name => kindOf(name) !== 'e')
    // One command a name: in a cluster names of one command must be in one slot.
    const counted = sumOf(entries, SLICE, name => unlinkCounted(link, name))
    const [count] = await Promise.all([counted, ...others.map(name => link.send('UNLINK', name))])
    forgotten += count
  }
  return forgotten
}

/** In one step: several workers do the same at once, and each entry is counted by one of them. */
async function unlinkCounted(link: RedisLink, name: string): Promise<number> {
  const [count] = await link.transaction([
    ['HLEN', name],
    ['UNLINK', name],
  ])
  return Number(count)
}

/** All URIs of a host on one server. @returns how many entries were forgotten */
export async function purgeHost(link: RedisLink, host: string): Promise<number> {
  let forgotten = 0
  for await (const names of slices(link, patternOfHost(host))) {
    const ours = names.filter(name => kindOf(name) === 'u')
    forgotten += await sumOf(ours, URIS_AT_ONCE, name => purgeUri(link, tagOf(name), name))
  }
  return forgotten
}

/**
 * All partitions of a URI. What is still written for it then has a generation that nobody finds.
 * @param generations the name of the generations of its partitions
 * @returns how many entries were forgotten
 */
export async function purgeUri(link: RedisLink, tag: string, generations: string): Promise<number> {
  const [partitions] = await link.transaction([
    ['HKEYS', generations],
    ['UNLINK', generations],
  ])
  return await sumOf(texts(partitions), PARTITIONS_AT_ONCE, each => forgetEntries(link, tag, each))
}

/** What is stored under one key. @returns how many entries that were */
export async function forgetEntries(link: RedisLink, tag: string, partition: string): Promise<number> {
  const entries = entriesName(tag, partition)
  const [ids] = await link.transaction([
    ['HKEYS', entries],
    ['UNLINK', entries],
  ])
  const found = texts(ids)
  await Promise.all(found.map(id => link.send(...keepWhileRead(contentName(tag, id)))))
  return found.length
}

/**
 * How much a server holds.
 *
 * `entries` is the number of keys under which something is stored, estimated from the first names that SCAN has and from
 * how many names there are. `bytes` is all memory of the server and `evictions` all that it has evicted since its start,
 * also for others that share it.
 */
export async function statsOf(link: RedisLink): Promise<Omit<CacheStats, 'up'>> {
  const [memory, stats, size, scanned] = await Promise.all([
    link.send('INFO', 'memory'),
    link.send('INFO', 'stats'),
    link.send('DBSIZE'),
    link.send('SCAN', '0', 'COUNT', SAMPLE),
  ])
  const [, found] = Array.isArray(scanned) ? scanned : []
  const names = texts(found)
  const entries = names.filter(name => kindOf(name) === 'e').length
  const share = names.length === 0 ? 0 : entries / names.length
  return {
    entries: Math.round(share * Number(size)),
    bytes: infoNumber(memory, 'used_memory'),
    evictions: infoNumber(stats, 'evicted_keys'),
  }
}

/** Names that match, a slice at a time; one may come twice. */
async function* slices(link: RedisLink, pattern: string): AsyncGenerator<readonly string[]> {
  let cursor = '0'
  do {
    const reply = await link.send('SCAN', cursor, 'MATCH', pattern, 'COUNT', String(SLICE))
    const [next, names] = Array.isArray(reply) ? reply : []
    if (next === undefined) throw new Error('an answer to SCAN that is no list')
    cursor = String(next)
    yield texts(names)
  } while (cursor !== '0')
}

/** Does work for all items, so many of them at once, and adds up what it gives. */
async function sumOf<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<number>,
): Promise<number> {
  let sum = 0
  for (let i = 0; i < items.length; i += atOnce) {
    const numbers = await Promise.all(items.slice(i, i + atOnce).map(work))
    sum = numbers.reduce((a, b) => a + b, sum)
  }
  return sum
}

function texts(reply: Reply | undefined): string[] {
  return Array.isArray(reply) ? reply.map(String) : []
}

function infoNumber(info: Reply, name: string): number {
  const line = String(info)
    .split('\r\n')
    .find(text => text.startsWith(`${name}:`))
  return Number(line?.slice(name.length + 1) ?? 0)
}

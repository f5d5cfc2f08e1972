/**
 * Finds what is stored under a key, from ten entries to a million in the same time.
 *
 * A Map makes a new table of all its entries when it has grown twice as large, and as often when many come and go: with a
 * million of them that stops the loop for 50 to 100 ms. So there are many small ones, chosen by a few characters of the
 * URI: keys that agree in those only make one of them larger. A Map is by URI alone: a key joined from partition and URI
 * would be a new string for every request.
 */
import type { CacheKey } from '../../cache/stored-response.js'

const SHARDS = 256
/** Characters of a URI that its shard is chosen by, about. */
const SAMPLED = 16
const NONE: readonly never[] = Object.freeze([])

/** The items of one partition; an array is never changed once it is here. */
type Items<Item> = readonly [Item, ...Item[]]
/** The one item of a URI, which most have; or those of one partition, or of several. */
type Resource<Item> = Item | Items<Item> | Map<string, Items<Item>>
type Shard<Item> = Map<string, Resource<Item>>

export class MemoryIndex<Item extends CacheKey> {
  readonly #shards: (Shard<Item> | undefined)[] = new Array(SHARDS).fill(undefined)

  /** In the order in which they were set; the array stays as it is, whatever is set later. */
  get(key: CacheKey): readonly Item[] {
    const resource = this.#shards[shardOf(key.uri)]?.get(key.uri)
    if (resource === undefined) return NONE
    if (resource instanceof Map) return resource.get(key.partition) ?? NONE
    const items = itemsOf(resource)
    return items[0].partition === key.partition ? items : NONE
  }

  /**
   * @param key the one of an item of `items`, where there are any: its texts are kept
   * @param items not to be changed any more
   */
  set(key: CacheKey, items: readonly Item[]): void {
    const at = shardOf(key.uri)
    const shard = this.#shards[at] ?? new Map<string, Resource<Item>>()
    this.#shards[at] = shard
    if (isFilled(items)) put(shard, key, items)
    else clear(shard, key)
  }

  /** Whatever their partition. */
  ofUri(uri: string): readonly Item[] {
    const resource = this.#shards[shardOf(uri)]?.get(uri)
    if (resource === undefined) return NONE
    return resource instanceof Map ? [...resource.values()].flat() : itemsOf(resource)
  }

  /** All that are there from the first to the last step, and some of those that come and go meanwhile. */
  *uris(): Generator<string, void, void> {
    for (const shard of this.#shards) if (shard !== undefined) yield* shard.keys()
  }
}

function itemsOf<Item extends CacheKey>(resource: Item | Items<Item>): Items<Item> {
  return isSeveral(resource) ? resource : [resource]
}

function isSeveral<Item>(resource: Item | Items<Item>): resource is Items<Item> {
  return Array.isArray(resource)
}

function put<Item extends CacheKey>(
  shard: Shard<Item>,
  { partition, uri }: CacheKey,
  items: Items<Item>,
): void {
  const before = shard.get(uri)
  if (before instanceof Map) {
    before.set(partition, items)
    return
  }
  const others = before === undefined ? undefined : itemsOf(before)
  if (others === undefined || others[0].partition === partition) {
    shard.set(uri, items.length === 1 ? items[0] : items)
    return
  }
  const both = new Map([
    [others[0].partition, others],
    [partition, items],
  ])
  shard.set(uri, both)
}

function clear<Item extends CacheKey>(shard: Shard<Item>, { partition, uri }: CacheKey): void {
  const before = shard.get(uri)
  if (before instanceof Map) {
    before.delete(partition)
    if (before.size === 0) shard.delete(uri)
  } else if (before !== undefined && itemsOf(before)[0].partition === partition) shard.delete(uri)
}

function isFilled<Item>(items: readonly Item[]): items is Items<Item> {
  return items.length > 0
}

/** The last characters differ most, so they are never left out. */
function shardOf(uri: string): number {
  const step = Math.max(1, Math.floor(uri.length / SAMPLED))
  let hash = uri.length
  for (let i = uri.length - 1; i >= 0; i -= step) hash = Math.imul(hash ^ uri.charCodeAt(i), 0x01000193)
  return ((hash ^ (hash >>> 15)) >>> 0) % SHARDS
}

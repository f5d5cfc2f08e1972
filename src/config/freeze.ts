/**
 * Deep freezing of a parsed configuration. All connections share it, and a change made by one of them would change the
 * policy.
 */

export type DeepReadonly<T> =
  T extends ReadonlyMap<infer Key, infer Value>
    ? ReadonlyMap<Key, DeepReadonly<Value>>
    : T extends object
      ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
      : T

/** Freezes plain objects, lists and maps in place, to any depth; a frozen Map throws when it is changed. */
export function deepFreeze<T>(value: T): DeepReadonly<T> {
  freeze(value)
  return value as DeepReadonly<T>
}

function freeze(value: unknown): void {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return
  if (value instanceof Map) {
    // Object.freeze does not freeze the entries of a Map.
    for (const method of ['set', 'delete', 'clear']) Object.defineProperty(value, method, { value: refuse })
    for (const entry of value.values()) freeze(entry)
  }
  Object.freeze(value)
  for (const child of Object.values(value)) freeze(child)
}

function refuse(): never {
  throw new TypeError('this map is frozen')
}

/** Parses Kubernetes manifests, and validates them by the schemas of the Kubernetes API. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseAllDocuments } from 'yaml'

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string }
}

/** @throws the YAML parser's error, also for a repeated key */
export function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text).map(document => {
    if ('errors' in document) for (const error of [...document.errors, ...document.warnings]) throw error
    return document.toJS() as Manifest
  })
}

/** @param path relative to the root of the project */
export function readProjectFile(path: string): string {
  return readFileSync(`${ROOT}${path}`, 'utf8')
}

/**
 * @param kind the kind of the document
 * @throws TypeError if there is no such document, or more than one
 */
export function manifestOf<T extends Manifest>(manifests: readonly Manifest[], kind: T['kind']): T {
  const [found, ...more] = manifests.filter(manifest => manifest.kind === kind)
  if (found === undefined || more.length > 0) throw new TypeError(`expected one ${kind}`)
  return found as T
}

/** What the Kubernetes API would refuse in a manifest, or ignore: a key that its schema does not know. */
export async function faultsOf(manifest: Manifest): Promise<string[]> {
  const models = (await import(`kubernetes-models/${manifest.apiVersion}`)) as Record<string, unknown>
  const model = models[manifest.kind]
  if (typeof model !== 'function') return [`${manifest.apiVersion} has no ${manifest.kind}`]
  const unread = new Set<string>()
  try {
    // It validates `this`: here a copy that records which keys the schema reads.
    Reflect.apply(model.prototype.validate, watched(manifest, '', unread), [])
  } catch (error) {
    return [String(error)]
  }
  return [...unread].map(path => `${path} is not known`)
}

/** A copy of a document that removes the path of each key from `unread` as it is read. */
function watched(value: unknown, path: string, unread: Set<string>): unknown {
  if (Array.isArray(value)) return value.map((item, index) => watched(item, `${path}/${index}`, unread))
  if (typeof value !== 'object' || value === null) return value
  const copy = Object.fromEntries(
    Object.entries(value).map(([key, child]) => {
      unread.add(`${path}/${key}`)
      return [key, watched(child, `${path}/${key}`, unread)]
    }),
  )
  return new Proxy(copy, {
    get(target, key) {
      unread.delete(`${path}/${String(key)}`)
      return Reflect.get(target, key)
    },
    // If the keys are listed, any key is allowed: those of labels, and of the data of a ConfigMap.
    ownKeys(target) {
      for (const key of Object.keys(target)) unread.delete(`${path}/${key}`)
      return Reflect.ownKeys(target)
    },
  })
}

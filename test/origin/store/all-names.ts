/** The names in a collection according to the index, sorted. */
import type { CollectionIndex } from '../../../src/origin/store/collection-index.js'
import { SmallestNames } from '../../../src/origin/store/smallest-names.js'

export async function allNames(index: CollectionIndex, path: string): Promise<readonly string[]> {
  const selection = new SmallestNames('', 1_000_000, Number.POSITIVE_INFINITY)
  await index.scan(path, [selection])
  return selection.selected().names
}

/** The order of a list that changes every second: it holds still while somebody points at it or has the focus in it. */

interface HeldItem<Item> {
  readonly item: Item
  /** It is not in the list any more, and keeps its place until the list is left. */
  readonly isGone: boolean
}

class HeldOrder<Item> {
  readonly #keyOf: (item: Item) => string
  #shown: readonly HeldItem<Item>[] = []

  constructor(keyOf: (item: Item) => string) {
    this.#keyOf = keyOf
  }

  /**
   * @param wanted the items in the order in which they would be shown
   * @param isHeld whether the order of the last call is kept
   * @returns what to show, and how many items wait until the order is no longer held
   */
  next(wanted: readonly Item[], isHeld: boolean): { shown: readonly HeldItem<Item>[]; waiting: number } {
    if (!isHeld || this.#shown.length === 0) {
      this.#shown = wanted.map(item => ({ item, isGone: false }))
      return { shown: this.#shown, waiting: 0 }
    }
    const byKey = new Map(wanted.map(item => [this.#keyOf(item), item]))
    this.#shown = this.#shown.map(({ item }) => {
      const key = this.#keyOf(item)
      const now = byKey.get(key)
      byKey.delete(key)
      return now === undefined ? { item, isGone: true } : { item: now, isGone: false }
    })
    return { shown: this.#shown, waiting: byKey.size }
  }
}

/** Calls back when the element is left, by the pointer or by the focus. */
function onLeave(element: HTMLElement, left: () => void): void {
  element.addEventListener('pointerleave', left)
  element.addEventListener('focusout', event => {
    if (!(event.relatedTarget instanceof Node && element.contains(event.relatedTarget))) left()
  })
}

/** A finger leaves no pointer behind, although a browser may go on to say so. */
const HOVERS = matchMedia('(hover: hover)')

function isInUse(element: HTMLElement): boolean {
  return element.matches(':focus-within') || (HOVERS.matches && element.matches(':hover'))
}

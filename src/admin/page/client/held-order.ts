/** Keeps the order of a list that changes every second while the pointer or the focus is in the list. */

interface HeldItem<Item> {
  readonly item: Item
  /** Whether it was removed from the list; it keeps its place until the list is left. */
  readonly isGone: boolean
}

class HeldOrder<Item> {
  readonly #keyOf: (item: Item) => string
  #shown: readonly HeldItem<Item>[] = []

  constructor(keyOf: (item: Item) => string) {
    this.#keyOf = keyOf
  }

  /**
   * @param wanted the items in their new order
   * @param isHeld whether to keep the order of the last call
   * @returns the items to show, and how many new ones are left out while the order is held
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

/** Calls back when the pointer or the focus leaves the element. */
function onLeave(element: HTMLElement, left: () => void): void {
  element.addEventListener('pointerleave', left)
  element.addEventListener('focusout', event => {
    if (!(event.relatedTarget instanceof Node && element.contains(event.relatedTarget))) left()
  })
}

/** Touch screens report :hover for the last element that was touched, so there it does not count. */
const HOVERS = matchMedia('(hover: hover)')

function isInUse(element: HTMLElement): boolean {
  return element.matches(':focus-within') || (HOVERS.matches && element.matches(':hover'))
}

/** Finds and creates elements, and keeps them in step with lists. Content is always set as text, never as markup. */

function found<T extends HTMLElement = HTMLElement>(id: string): T {
  const element = document.getElementById(id)
  if (element === null) throw new Error(`no element ${id}`)
  return element as T
}

function made<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = '',
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  if (className !== '') element.className = className
  element.append(...children)
  return element
}

/** Changes the document only when the text differs, so that selections and screen readers are not disturbed. */
function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

/** The places where a host, an address, a URL or YAML may be broken: after the characters that separate its words. */
const BREAKS = /(?<=[-.:/_,@=?&;])(?=[^-.:/_,@=?&;\s])/

/** @returns the text with break opportunities between its words, and nowhere else */
function breakable(text: string): (Node | string)[] {
  return text.split(BREAKS).flatMap((part, i) => (i === 0 ? [part] : [document.createElement('wbr'), part]))
}

/** @returns a sentence in the same way, with the parts between backticks as code */
function prose(text: string): (Node | string)[] {
  return text
    .split('`')
    .flatMap((part, i) => (i % 2 === 1 ? [made('code', '', ...breakable(part))] : breakable(part)))
}

/** As setText, with break opportunities between words. */
function setBreakable(element: Element, text: string): void {
  if (element.textContent !== text) element.replaceChildren(...breakable(text))
}

/** Fills a `dl` with pairs of a term and its value. */
function setFacts(list: HTMLElement, facts: readonly (readonly [string, string])[]): void {
  const text = JSON.stringify(facts)
  if (list.dataset['facts'] === text) return
  list.dataset['facts'] = text
  list.replaceChildren(
    ...facts.map(([term, value]) =>
      made('div', '', made('dt', '', term), made('dd', '', ...breakable(value))),
    ),
  )
}

interface KeyedView<Item> {
  readonly element: HTMLElement
  update(item: Item): void
}

/** The children of one element, one for each item. Elements whose item remains keep the focus. */
class KeyedList<Item> {
  readonly #parent: HTMLElement
  readonly #keyOf: (item: Item) => string
  readonly #make: (item: Item) => KeyedView<Item>
  readonly #views = new Map<string, KeyedView<Item>>()

  constructor(parent: HTMLElement, keyOf: (item: Item) => string, make: (item: Item) => KeyedView<Item>) {
    this.#parent = parent
    this.#keyOf = keyOf
    this.#make = make
  }

  show(items: readonly Item[]): void {
    const left = new Set(this.#views.keys())
    let place = this.#parent.firstElementChild
    for (const item of items) {
      const key = this.#keyOf(item)
      const view = this.#views.get(key) ?? this.#make(item)
      this.#views.set(key, view)
      left.delete(key)
      view.update(item)
      if (view.element === place) place = place.nextElementSibling
      else if (!view.element.contains(document.activeElement)) this.#parent.insertBefore(view.element, place)
    }
    for (const key of left) {
      this.#views.get(key)?.element.remove()
      this.#views.delete(key)
    }
  }
}

/** A row of cells; the first is its header. Roles are explicit, because a style may change the display of table elements. */
function textRow(columns: readonly string[]): { row: HTMLTableRowElement; cells: HTMLElement[] } {
  const cells = columns.map((className, i) => {
    const cell = made(i === 0 ? 'th' : 'td', className)
    cell.setAttribute('role', i === 0 ? 'rowheader' : 'cell')
    if (i === 0) cell.setAttribute('scope', 'row')
    return cell
  })
  const row = made('tr', '', ...cells)
  row.setAttribute('role', 'row')
  return { row, cells }
}

/** A table of texts: `columns` are the classes of the cells, `textsOf` returns their texts. */
function textTable<Item>(
  id: string,
  columns: readonly string[],
  keyOf: (item: Item) => string,
  textsOf: (item: Item) => readonly string[],
): (items: readonly Item[]) => void {
  const body = found(id).querySelector('tbody')
  if (body === null) throw new Error(`no rows in ${id}`)
  const list = new KeyedList<Item>(body, keyOf, () => {
    const { row, cells } = textRow(columns)
    return {
      element: row,
      update: item => {
        for (const [i, text] of textsOf(item).entries()) {
          const cell = cells[i]
          if (cell !== undefined) setBreakable(cell, text)
        }
      },
    }
  })
  return items => {
    list.show(items)
    setFilled(id, items.length > 0)
  }
}

/** Shows the table, or the sentence that takes its place when it is empty. */
function setFilled(id: string, filled: boolean): void {
  found(id).hidden = !filled
  found(`${id}-empty`).hidden = filled
}

/** Announces something to those who cannot see the page. */
function announce(text: string): void {
  setText(found('news'), text)
}

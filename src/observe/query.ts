/** Where what may hold secrets begins in a target; a fragment, which only refused targets have, as well as a query. */
const QUERY = /[?#]/

/** @param target a path, or a target that was refused */
export function withoutQuery(target: string): string {
  const query = target.search(QUERY)
  return query === -1 ? target : target.slice(0, query)
}

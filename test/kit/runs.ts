/** How often properties are tested: a run at every change does a tenth of what CI does. */

const THOROUGH = process.env['CI'] !== undefined

/**
 * @param all the number of runs in CI
 * @param least the number that a property needs to encounter every case
 * @returns a tenth of all, or as many as it needs
 */
export function runs(all: number, least = 10): number {
  return THOROUGH ? all : Math.min(all, Math.max(least, Math.ceil(all / 10)))
}

/* URI templates, as far as resources have them (RFC 6570, levels 1 to 3). */

const EXPRESSION = /\{([+#./;?&]?)([^}]+)\}/g;

export function variablesOf(template: string): string[] {
  const names = Array.from(template.matchAll(EXPRESSION), ([, , names]) => names!.split(','));
  return [...new Set(names.flat().map(plainName))];
}

/** Expands a template; a variable without a value is left out. */
export function expand(template: string, values: Readonly<Record<string, unknown>>): string {
  return template.replaceAll(EXPRESSION, (_, operator: string, list: string) => {
    const given = list.split(',').map(plainName);
    const parts = given.flatMap((name) => {
      const given = values[name];
      const value = typeof given === 'string' ? given : given === undefined ? '' : JSON.stringify(given);
      if (value === '') return [];
      const text = operator === '+' || operator === '#' ? encodeURI(value) : encodeURIComponent(value);
      return '?&;'.includes(operator) && operator !== '' ? [`${name}=${text}`] : [text];
    });
    if (parts.length === 0) return '';
    const first = operator === '+' ? '' : operator;
    const between = operator === '?' ? '&' : operator === '' || operator === '+' || operator === '#' ? ',' : operator;
    return first + parts.join(between);
  });
}

const plainName = (name: string): string => name.replace(/(?:\*|:\d+)$/, '');

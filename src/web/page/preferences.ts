/** What a person chose for the pages in this browser. Each choice is kept in a cookie; the first one is the default. */
export const PREFERENCES = {
  theme: {
    system: "As the system",
    light: "Light",
    dark: "Dark",
    "light-high-contrast": "Light, high contrast",
    "dark-high-contrast": "Dark, high contrast",
    "light-colorblind": "Light, for colour blindness",
    "dark-colorblind": "Dark, for colour blindness",
  },
  navigation: { wide: "Words beside the icons", rail: "Narrow, words below the icons" },
  density: { comfortable: "Two lines a row", dense: "One line a row" },
  /** WCAG 2.1.4: keys of one character can be switched off. */
  keys: { on: "On", off: "Off" },
} as const;

type All = typeof PREFERENCES;
export type PreferenceName = keyof All;
export type Preferences = { readonly [Name in PreferenceName]: keyof All[Name] };

export const PREFERENCE_NAMES = Object.keys(PREFERENCES) as readonly PreferenceName[];

/** Whether a text is one of the choices. */
export const isChoice = (name: PreferenceName, text: string): boolean => Object.hasOwn(PREFERENCES[name], text);

/** @param read what the browser sent; null for nothing. An unknown choice counts as nothing. */
export function preferencesFrom(read: (name: PreferenceName) => string | null): Preferences {
  const chosen = PREFERENCE_NAMES.map((name) => {
    const text = read(name);
    return [name, text !== null && isChoice(name, text) ? text : Object.keys(PREFERENCES[name])[0]] as const;
  });
  return Object.fromEntries(chosen) as unknown as Preferences;
}

/* Left out: the icons come from the fonts in vendor/fontawesome. */

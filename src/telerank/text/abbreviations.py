"""Word lists for sentence splitting: abbreviations by behaviour, and words that begin sentences.

Abbreviations have no final stop. Those in lower case match in any case, others as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Abbreviations:
    """The word lists of one language."""

    inside: frozenset[str]
    """Never end a sentence (Dr., e.g., cf.)."""
    numbered: frozenset[str]
    """Abbreviations if a number follows (No. 5, art. L. 123), otherwise words (I said no.)."""
    either: frozenset[str]
    """End a sentence if a word of ``openers`` follows (Inc., Jan.)."""
    openers: frozenset[str]
    """Words in lower case that mostly begin a sentence if they are capitalised."""
    particles: frozenset[str]
    """Words of ``openers`` that are also parts of surnames (Le Goff)."""
    before_initials: frozenset[str]
    """Words in lower case after which a letter is an initial (by J. Smith)."""
    lettered: frozenset[str]
    """Words in lower case after which a letter is a name, which may end a sentence (vitamin C.)."""
    sloppy_openers: frozenset[str]
    """Words that begin a sentence after a stop even in lower case, in careless writing."""


def _set(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


ENGLISH = Abbreviations(
    inside=_set(
        "mr mrs ms mx messrs dr drs prof profs Rev Fr Hon Gen Col Lt Sgt Cpl Pvt Capt Cmdr Adm Maj Brig Gov",
        "Sen Sens Rep Reps Pres Supt Insp Msgr Atty Mt Mts Ft Amb Dir e.g i.e eg ie cf viz vs v approx ca",
        "resp incl esp aka a.k.a",
    ),
    numbered=_set(
        "no nos nr fig figs eq eqs eqn eqns sec sect secs ch chap chaps vol vols pp p pg para paras par art",
        "arts tab ref refs ver op pt pts ex app appx cl n l ll tel ext pat reg circ min max avg",
    ),
    either=_set(
        "Inc Ltd Corp Co Cos Bros LLC plc Jr Sr Esq Ave Blvd Rd St Ste Sts Dept Univ Assn Intl Natl Govt",
        "dept govt al ed eds Est Mfg jan feb Mar apr jun jul aug sep sept oct nov dec Mon Tue Tues Wed Thu",
        "Thur Thurs Fri Sat Sun Ala Ariz Ark Calif Colo Conn Del Fla Ga Ill Ind Kan Ky Mass Md Mich Minn",
        "Miss Mo Mont Neb Nev Okla Ore Pa Penn Tenn Va Vt Wash Wis Wyo hr hrs wk wks yr yrs sq cu lb lbs oz",
        "mi yd tbsp tsp spp sp subsp ssp Proc Acad Sci Biol Chem Med Bacteriol Immunol Biochem Biophys Res",
        "Commun Lett Phys Appl Mol Genet Dev Virol Pharmacol Physiol Clin Exp Opin Am Soc Assoc J",
    ),
    openers=_set(
        "the a an this that these those it its he she we they you i his her our their my your there here in",
        "on at as for from with without when while if after before during since because although though",
        "despite until under over upon once by to into among between through however moreover furthermore",
        "thus therefore hence then and but or nor so yet also besides indeed instead meanwhile nevertheless",
        "nonetheless otherwise finally later now today some many most much more several such both each",
        "every all any not none one two three another other others what who whom whose why how where which",
        "is are was were am be do does did has have had can could would should might must let please yes",
        "according additionally overall perhaps presumably usually generally often sometimes only even just",
        "like unlike using based given still everyone everything nothing nobody someone don't didn't isn't",
        "depending typically keep remember unfortunately unless further again consult thank assuming",
        "interestingly normally together always similarly think importantly recently currently regardless",
        "conversely either basically obviously rather notably surprisingly collectively likewise lastly",
        "starting specifically whereas certainly neither technically consequently naturally accordingly",
        "hopefully considering ultimately secondly whatever fortunately personally subsequently aside",
        "comparing probably essentially whenever ideally doing traditionally previously numerous eventually",
        "well results methods conclusion conclusions background",
    ),
    particles=frozenset(),
    before_initials=_set(
        "by and of with to from for near after before between against under is was as named called mr mrs",
    ),
    lettered=_set(
        "vitamin group type class category grade stage phase plan part section appendix exhibit schedule",
        "option figure table case point hepatitis influenza factor level model form line panel study",
        "protein strain variant formula step score room building gate division league unit version world",
        "war",
    ),
    sloppy_openers=_set(
        "i you we they he she it this these there if however please my your",
    ),
)

FRENCH = Abbreviations(
    inside=_set(
        "M MM mr mrs dr drs pr prs prof mgr Me mlle mme mmes mlles St Ste Sts Stes ste Gén Col Cdt Cne Lt",
        "Adj Sgt Ets Éts Sté cf p.ex ex c.-à-d c.à.d c-à-d i.e e.g env av apr boul bd bld vs éd coll dir",
        "trad ill adj resp rééd réf tél notamm spéc litt syn prép v ap",
    ),
    numbered=_set(
        "no nos n art arts al p pp pg vol t chap ch fig figs tab tabl éq sect par parag liv l n° ann alin",
        "pl f ff fol fax min max ord arr",
    ),
    either=_set(
        "etc cie sa sarl jr sr hab janv févr fév avr juill juil sept oct nov déc dép dépt univ inst assoc",
        "al suiv sq sqq ibid op cit loc",
    ),
    openers=_set(
        "le la les l' un une des du d' ce cet cette ces c' il ils elle elles on nous vous je j' tu mais et",
        "ou or donc car ni si s' en dans par pour avec sans sur sous après avant depuis pendant lors",
        "lorsque lorsqu' quand comme ainsi cependant toutefois pourtant néanmoins enfin ensuite puis alors",
        "aussi au aux à son sa ses leur leurs notre nos votre vos mon ma mes ton ta tes qui que qu' quel",
        "quelle quels quelles où comment pourquoi combien selon chez entre malgré tout tous toute toutes",
        "chaque plusieurs certains certaines cela ceci ça celui celle ceux celles bien même parmi grâce",
        "afin outre contre vers dès jusqu' là ici sont ne n' oui non de deux trois aucun aucune autre",
        "autres autrement beaucoup bref d'abord d'autres aujourd'hui hier demain puisque puisqu' parce",
        "quoique tandis voici voilà voir veuillez peut plus moins très trop peu certes effectivement",
        "également finalement généralement actuellement notamment seul seule seuls seules étant ayant a ont",
        "y lui m' t' attention durant sauf soit sinon chacun chacune au-delà vérifiez conservez être avoir",
        "se concernant contrairement uniquement auprès faire",
    ),
    particles=_set(
        "le la l' de des du d' van von",
    ),
    before_initials=_set(
        "par et de d' à avec pour chez dit selon contre entre vers sous monsieur madame m mm mme",
    ),
    lettered=_set(
        "vitamine vitamines groupe groupes type classe catégorie grade stade phase plan partie section",
        "annexe option figure tableau cas point hépatite grippe facteur niveau modèle permis ligne",
        "formulaire bâtiment division ligue unité version liste colonne case zone série souche variante",
        "protéine jour plage salle quai",
    ),
    sloppy_openers=frozenset(),
)

LANGUAGES: Mapping[str, Abbreviations] = {"en": ENGLISH, "fr": FRENCH}
